// arch/um/os-Linux/signal.c
// Interrupts off and on without a call of the host: an IPI that comes while they
// are off waits in memory, as the timer's signal does already.
@ closed @
@@
 __block_signals(void)
 {
	...
-	os_local_ipi_disable();
	...
 }

@ opened @
@@
 __unblock_signals(void)
 {
	...
-	os_local_ipi_enable();
 }

@ pended @
identifier pending;
@@
 unblock_signals(void)
 {
	<+...
-	pending == 0
+	pending == 0 && !native_ipi_pending()
	...+>
 }

@ run @
@@
 unblock_signals(void)
 {
	<+...
	um_trace_signals_off();
+	native_ipi_run();
	...+>
 }

// The host lets signals in while a handler runs, as a CPU lets interrupts in
// while softirqs run: they would wait for these to end otherwise. What must not
// be interrupted has our own interrupts off.
@ let_in @
identifier action, flags;
@@
 set_handler(int sig)
 {
	...
+	sigemptyset(&action.sa_mask);
+	flags |= SA_NODEFER;
	action.sa_flags = flags;
	...
 }

// So the timer's handler may be entered again from there.
@ again @
@@
 timer_alarm_handler(...)
 {
	...
-	signals_active |= SIGALRM_MASK;
	...
-	signals_active &= ~SIGALRM_MASK;
	...
 }

@ depends on closed && opened && pended && run && let_in && again @
@@
 #include "internal.h"
+#include <native.h>
