// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/vhost/net.c
// if: tun_wake_queue in drivers/vhost/net.c

@batch_without_wake@
expression queue, ring, rxq;
identifier sk, nvq, file;
@@
-static int vhost_net_buf_produce(struct sock *sk,
-				 struct vhost_net_virtqueue *nvq)
+static int vhost_net_buf_produce(struct vhost_net_virtqueue *nvq)
 {
-	struct file *file = sk->sk_socket->file;
 	...
-	rxq->head = 0;
-	spin_lock(&ring->consumer_lock);
-	rxq->tail = __ptr_ring_consume_batched(ring, queue, VHOST_NET_BATCH);
-	if (rxq->tail)
-		tun_wake_queue(file, rxq->tail);
-	spin_unlock(&ring->consumer_lock);
+	rxq->head = 0;
+	rxq->tail = ptr_ring_consume_batched(ring, queue, VHOST_NET_BATCH);
 	...
 }

@peek_without_socket@
identifier sk, nvq;
@@
-static int vhost_net_buf_peek(struct sock *sk,
-			      struct vhost_net_virtqueue *nvq)
+static int vhost_net_buf_peek(struct vhost_net_virtqueue *nvq)
 {
 	...
-	if (!vhost_net_buf_produce(sk, nvq))
+	if (!vhost_net_buf_produce(nvq))
 		return 0;
 	...
 }

@caller@
expression sk, rvq;
@@
-vhost_net_buf_peek(sk, rvq)
+vhost_net_buf_peek(rvq)
