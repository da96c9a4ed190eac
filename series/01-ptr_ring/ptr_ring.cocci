// SPDX-License-Identifier: GPL-2.0-or-later
// file: include/linux/ptr_ring.h

@helpers@
typedef bool;
@@

+/* True if @n entries fit, and one more. Callers must hold producer_lock.
+ *
+ * An entry that is free stays free until a producer fills it, so what this
+ * promises to a producer holds after it has dropped the lock, too, as long as
+ * all producers count the promises of the others in @n. ptr_ring_unconsume() and
+ * a resize may fill it, too. Looks at @n + 1 entries: the consumer frees a batch
+ * from its end, so the last of them does not tell about those before.
+ */
+static inline bool __ptr_ring_has_room(struct ptr_ring *r, int n)
+{
+	int i = r->producer;
+
+	if (unlikely(n >= r->size))
+		return false;
+
+	/* the consumer clears entries meanwhile: a free one may be missed */
+	while (!data_race(r->queue[i])) {
+		if (!n--)
+			return true;
+		if (++i >= r->size)
+			i = 0;
+	}
+	return false;
+}
+
static inline bool ptr_ring_full(struct ptr_ring *r)
{
	...
}
