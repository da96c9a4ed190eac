// arch/um/kernel/skas/uaccess.c
// A number is copied whole between the kernel and its processes.
@ copied @
identifier chunk =~ "^copy_chunk_";
expression to, from, bytes;
@@
 chunk(...)
 {
	<+...
-	memcpy(to, from, bytes);
+	native_copy(to, from, bytes);
	...+>
 }

@ depends on copied @
@@
 #include <os.h>
+#include <native_copy.h>
