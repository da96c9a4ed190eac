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
+ * a resize may fill it, too.
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
+/* Number of entries that are not consumed yet. Callers must hold
+ * producer_lock. The consumer may be at work: then the number is one of a
+ * moment ago, and a full ring may look empty while the consumer leaves its
+ * first entry. __ptr_ring_has_room() is never wrong in this way.
+ */
+static inline int __ptr_ring_len(struct ptr_ring *r)
+{
+	int len = r->producer - READ_ONCE(r->consumer_head);
+
+	/* the consumer may clear this entry meanwhile, see above */
+	if (!len && r->size && data_race(r->queue[r->producer]))
+		return r->size;
+	return len < 0 ? len + r->size : len;
+}
+
static inline bool ptr_ring_full(struct ptr_ring *r)
{
	...
}
