/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_TRACE_H

#include <linux/tracepoint.h>

#include "sluice.h"

DECLARE_EVENT_CLASS(sluice_queue_event,
	TP_PROTO(const struct sluice_queue *q, int fill, u64 stopped_ns),
	TP_ARGS(q, fill, stopped_ns),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(unsigned int, queue)
		__field(int, fill)
		__field(int, size)
		__field(u64, stopped_ns)
	),
	TP_fast_assign(
		__entry->ifindex = q->device->dev->ifindex;
		__entry->queue = q - q->device->queue;
		__entry->fill = fill;
		__entry->size = q->size;
		__entry->stopped_ns = stopped_ns;
	),
	TP_printk("ifindex=%d queue=%u fill=%d size=%d stopped_ns=%llu",
		  __entry->ifindex, __entry->queue, __entry->fill,
		  __entry->size, __entry->stopped_ns)
);

DEFINE_EVENT(sluice_queue_event, queue_stop,
	TP_PROTO(const struct sluice_queue *q, int fill, u64 stopped_ns),
	TP_ARGS(q, fill, stopped_ns)
);

DEFINE_EVENT(sluice_queue_event, queue_wake,
	TP_PROTO(const struct sluice_queue *q, int fill, u64 stopped_ns),
	TP_ARGS(q, fill, stopped_ns)
);

DEFINE_EVENT(sluice_queue_event, queue_stall,
	TP_PROTO(const struct sluice_queue *q, int fill, u64 stopped_ns),
	TP_ARGS(q, fill, stopped_ns)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
