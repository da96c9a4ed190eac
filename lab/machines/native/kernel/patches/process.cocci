// arch/um/os-Linux/skas/process.c
// The process of the host that runs one of ours follows it from CPU to CPU.
@ started @
identifier process;
expression list how;
@@
 start_userspace(struct mm_id *process)
 {
	...
	process->pid = clone(how);
+	process->host_cpu = uml_curr_cpu();
	...
 }

@ runs @
identifier process;
@@
 userspace(...)
 {
	<+...
+	native_pin_process(process);
	wait_stub_done_seccomp(process, 0, 0);
	...+>
 }

@ depends on started && runs @
@@
 #include "../internal.h"
+#include <smp.h>
+#include <native.h>
