from: /\* (Stop the queue instead of|A full ring stops the)\s
before: #define IFF_BACKPRESSURE\s
/* This flag has no real effect: every device has backpressure */
