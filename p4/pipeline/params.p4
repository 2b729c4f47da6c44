// What the controller says about workers, rings and flows. Sizes and batches are bytes, times microseconds.
control WorkerParams(inout meta_t m) {
    action worker(bit<16> producers, bit<8> settings, bytes_t max_batch, bytes_t size, bytes_t mask,
                  bytes_t low_space, bit<8> mtu, bytes_t mtu_mask, bit<16> data_qp, bit<16> poll_qp, bit<16> group,
                  bit<16> members, bit<32> all_members, bit<16> flow, usec_t poll_interval, usec_t poll_timeout, usec_t rto,
                  bit<32> max_tries) {
        m.producers = producers;
        m.settings = settings;
        m.max_batch = max_batch;
        m.consumer_size = size;
        m.consumer_mask = mask;
        m.low_space = low_space;
        m.mtu = mtu;
        m.mtu_mask = mtu_mask;
        m.consumer_data_qp = data_qp;
        m.consumer_poll_qp = poll_qp;
        m.group = group;
        m.members = members;
        m.all_members = all_members;
        m.flow = flow;
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

// A worker's list of producers, in a circle.
control ProducerList(inout meta_t m) {
    action member(bit<16> producer, bit<16> next) {
        m.producer = producer;
        m.next = next;
    }
    action no_member() { m.event = EV_NONE; }
    table producer_list {
        key = {
            m.worker : exact;
            m.index  : exact;
        }
        actions = { member; no_member; }
        const default_action = no_member();
        size = ZSR_MAX_LIST;
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

// The consumer rings of a replicate flow, one by one.
control Members(inout meta_t m) {
    action group_member(bit<16> poll_qp) { m.poll_qp = poll_qp; }
    action no_member() { m.event = EV_NONE; }
    table members {
        key = {
            m.worker : exact;
            m.hops   : exact;
        }
        actions = { group_member; no_member; }
        const default_action = no_member();
        size = ZSR_MAX_MEMBERS;
    }
    apply { members.apply(); }
}

// A flow's rate cap: `refill` bytes every `refill_every`.
control FlowParams(inout meta_t m) {
    action flow(bytes_t refill, bytes_t burst, usec_t refill_every) {
        m.refill = refill;
        m.burst = burst;
        m.refill_every = refill_every;
    }
    table flows {
        key = { m.flow : exact; }
        actions = { flow; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_FLOWS;
    }
    apply { flows.apply(); }
}
