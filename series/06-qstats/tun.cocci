// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c

@include@
@@
 #include <linux/proc_fs.h>
+#include <net/netdev_queues.h>

@past_stats@
@@
 struct tun_struct {
 	...
 	atomic_long_t rx_frame_errors;
+	/* of files that were detached, protected by rtnl lock */
+	struct tun_txq_stats past_stats;
 	...
 };

@stats_of_detached@
expression tfile;
@@
 __tun_detach(...)
 {
 	<...
 	synchronize_net();
 	tun_txq_release(&tfile->txq);
+	tun_txq_read_stats(&tfile->txq, &tun->past_stats, true);
 	...>
 }

@stats_of_deleted@
expression tfile;
@@
 tun_detach_all(...)
 {
 	<...
 	tun_txq_release(&tfile->txq);
+	tun_txq_read_stats(&tfile->txq, &tun->past_stats, true);
 	...>
 }

@stat_ops@
@@
+static void tun_get_queue_stats_tx(struct net_device *dev, int index,
+				   struct netdev_queue_stats_tx *stats)
+{
+	struct tun_struct *tun = netdev_priv(dev);
+	struct tun_file *tfile = rtnl_dereference(tun->tfiles[index]);
+	struct tun_txq_stats sum = {};
+
+	if (!(tun->flags & IFF_BACKPRESSURE))
+		return;
+	if (tfile)
+		tun_txq_read_stats(&tfile->txq, &sum, false);
+	stats->stop = sum.stops;
+	stats->wake = sum.wakes;
+}
+
+static void tun_get_base_stats(struct net_device *dev,
+			       struct netdev_queue_stats_rx *rx,
+			       struct netdev_queue_stats_tx *tx)
+{
+	struct tun_struct *tun = netdev_priv(dev);
+
+	if (!(tun->flags & IFF_BACKPRESSURE))
+		return;
+	tx->stop = tun->past_stats.stops;
+	tx->wake = tun->past_stats.wakes;
+}
+
+static const struct netdev_stat_ops tun_stat_ops = {
+	.get_queue_stats_tx	= tun_get_queue_stats_tx,
+	.get_base_stats		= tun_get_base_stats,
+};
+
 static const struct net_device_ops tun_netdev_ops = { ... };

@stat_ops_set@
expression dev;
@@
 tun_setup(...)
 {
 	...
 	dev->ethtool_ops = &tun_ethtool_ops;
+	dev->stat_ops = &tun_stat_ops;
 	...
 }
