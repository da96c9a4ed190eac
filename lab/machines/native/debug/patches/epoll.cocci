// arch/um/os-Linux/irq.c
// The C library allocates memory for the words of an error; a spinlock is held here.
@@
@@
 os_add_epoll_fd(...)
 {
	<+...
-	strerror(errno)
+	"is not a file to wait for"
	...+>
 }
