// arch/x86/um/asm/barrier.h
// Barriers between CPUs cost what they cost in a kernel for x86.
@@
@@
+#include <native_barrier.h>
 #include <asm-generic/barrier.h>
