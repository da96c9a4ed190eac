after: #define IFF_NO_CARRIER\s
/* A full ring stops the queue, so that packets wait in the qdisc */
#define IFF_BACKPRESSURE	0x0080
