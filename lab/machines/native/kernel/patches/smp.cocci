// arch/um/os-Linux/smp.c
// See signal.cocci. Each CPU's thread stays on one CPU of the host.
@ raise @
identifier cpu, vector;
@@
 os_send_ipi(int cpu, int vector)
 {
	...
+	if (!native_ipi_raise(cpu, vector))
+		return 0;
	return pthread_sigqueue(...);
 }

@ handle @
@@
 ipi_sig_handler(...)
 {
	...
+	if (!signals_enabled)
+		return;
	signals_enabled = 0;
	um_trace_signals_off();
-	uml_ipi_handler(...);
+	native_ipi_run();
-	um_trace_signals_on();
+	unblock_signals_trace();
-	signals_enabled = 1;
	...
 }

@ unblocked @
expression set;
@@
 os_start_secondary(...)
 {
	...
-	sigaddset(set, IPI_SIGNAL);
	...
 }

@ let_in @
identifier action;
@@
 os_init_smp(void)
 {
	...
-	sigfillset(&action.sa_mask);
+	action.sa_flags |= SA_NODEFER;
+	native_pin_cpu(0);
	...
 }

@ pinned @
identifier data;
@@
 cpu_thread(...)
 {
	...
	__curr_cpu = data->cpu;
+	native_pin_cpu(data->cpu);
	...
 }

@ depends on raise && handle && unblocked && let_in && pinned @
@@
 #include "internal.h"
+#include <native.h>
