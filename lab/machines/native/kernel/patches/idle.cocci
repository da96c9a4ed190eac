// arch/um/os-Linux/time.c
// See signal.cocci: an idle CPU looks for IPIs with their signal blocked, or it
// could sleep on one.
@ blocked @
identifier set;
@@
 os_idle_sleep(void)
 {
	...
	sigaddset(&set, SIGALRM);
+	sigaddset(&set, IPI_SIGNAL);
	...
 }

@ looked @
@@
 os_idle_sleep(void)
 {
	<+...
-	timer_alarm_pending()
+	native_wake_pending()
	...+>
 }

@ depends on blocked && looked @
@@
 #include "internal.h"
+#include <native.h>
