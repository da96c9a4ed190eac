// mm/kasan/shadow.c
// When areas of vmalloc() are freed together, User-Mode Linux clears the shadow of all
// that lies between the first and the last, after that of each of them: terabytes, if
// one was for per-CPU data.
@@
@@
 __kasan_release_vmalloc(...)
 {
	<+...
-	__memset(shadow_start, KASAN_SHADOW_INIT, shadow_end - shadow_start);
+	__memset(shadow_start, KASAN_SHADOW_INIT,
+		 flags & KASAN_VMALLOC_PAGE_RANGE ? shadow_end - shadow_start : 0);
	...+>
 }
