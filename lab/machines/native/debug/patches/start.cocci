// arch/um/os-Linux/smp.c
// A CPU frees no memory while it starts: RCU does not know it yet, and KASAN's stack
// trace has no end on the stack of the host's on which it runs then.
@ kept @
expression data;
@@
 os_start_secondary(...)
 {
	...
-	kfree(data);
	...
 }

@ depends on kept @
identifier cpu, data;
@@
+static struct cpu_thread_data starting[CONFIG_NR_CPUS];
+
 os_start_cpu_thread(int cpu)
 {
	<+...
(
-	data = uml_kmalloc(...);
+	data = &starting[cpu];
|
-	kfree(data);
)
	...+>
 }
