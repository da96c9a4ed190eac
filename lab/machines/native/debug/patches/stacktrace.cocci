// arch/um/kernel/stacktrace.c
// A stack trace begins where its caller asks for: KCSAN tells races apart by it.
@ skips @
@@
 save_addr(...)
 {
	...
	if (!reliable)
		return;
+	if (trace->skip) {
+		trace->skip--;
+		return;
+	}
	...
 }

@ depends on skips @
@@
 save_stack_trace(...)
 {
+	trace->skip++;
	__save_stack_trace(current, trace);
 }
