// arch/um/include/shared/skas/mm_id.h
// See process.cocci.
@@
@@
 struct mm_id {
	int pid;
+	int host_cpu;
	...
 };
