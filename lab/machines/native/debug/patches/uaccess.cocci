// arch/um/kernel/skas/uaccess.c
// Without memory for a page table there is none, though the page fault has ended.
@@
identifier pte;
@@
 maybe_map(...)
 {
	<+...
-	if (!pte_present(*pte))
+	if (pte && !pte_present(*pte))
		pte = NULL;
	...+>
 }
