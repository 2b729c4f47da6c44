// What the controller says about workers and rings. Sizes and batches are bytes, times microseconds.
control WorkerParams(inout meta_t m) {
    action worker(bit<16> producers, bytes_t max_batch, bytes_t size, bytes_t mask, bytes_t low_space, bit<8> mtu,
                  bit<16> data_qp, bit<16> poll_qp, bit<32> flags, usec_t poll_interval, usec_t poll_timeout,
                  usec_t rto, bit<32> max_tries) {
        m.producers = producers;
        m.max_batch = max_batch;
        m.consumer_size = size;
        m.consumer_mask = mask;
        m.low_space = low_space;
        m.mtu = mtu;
        m.consumer_data_qp = data_qp;
        m.consumer_poll_qp = poll_qp;
        m.consumer_flags = flags;
        m.poll_interval = poll_interval;
        m.poll_timeout = poll_timeout;
        m.rto = rto;
        m.max_tries = max_tries;
    }
    action no_worker() { m.event = EV_NONE; }
    table workers {
        key = { m.worker : exact; }
        actions = { worker; no_worker; }
        const default_action = no_worker();
        size = ZSR_MAX_WORKERS;
    }
    apply { workers.apply(); }
}

// A worker's list of producers.
control ProducerList(inout meta_t m) {
    action member(bit<16> producer) { m.producer = producer; }
    action no_member() { m.event = EV_NONE; }
    table producer_list {
        key = {
            m.worker : exact;
            m.index  : exact;
        }
        actions = { member; no_member; }
        const default_action = no_member();
        size = ZSR_MAX_PRODUCERS;
    }
    apply { producer_list.apply(); }
}

control ProducerParams(inout meta_t m) {
    action producer(bytes_t size, bytes_t mask, bit<16> data_qp, bit<16> poll_qp) {
        m.producer_size = size;
        m.producer_mask = mask;
        m.producer_data_qp = data_qp;
        m.producer_poll_qp = poll_qp;
    }
    table producers {
        key = { m.producer : exact; }
        actions = { producer; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_PRODUCERS;
    }
    apply { producers.apply(); }
}
