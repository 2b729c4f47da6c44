// What the controller says about workers and rings: what ingress needs (look.p4 has the rest). Bytes and microseconds.
control WorkerParams(inout meta_t m) {
    action worker(bit<8> settings, bytes_t max_batch, bytes_t mask, bit<16> data_qp,
                  bit<16> group, bit<32> all_members, bit<16> flow, usec_t poll_interval, usec_t poll_timeout,
                  usec_t rto, tries_t max_tries) {
        m.g.settings = settings;
        m.max_batch = max_batch;
        m.consumer_mask = mask;
        m.consumer_data_qp = data_qp;
        m.group = group;
        m.all_members = all_members;
        m.b.flow = flow;
        m.poll_interval = poll_interval;
        m.poll_timeout = poll_timeout;
        m.rto = rto;
        m.max_tries = max_tries;
    }
    action no_worker() { m.event = EV_NONE; }
    table workers {
        key = { m.b.worker : exact; }
        actions = { worker; no_worker; }
        const default_action = no_worker();
        size = ZSR_MAX_WORKERS;
    }
    apply { workers.apply(); }
}

// A worker's list of producers, in a circle.
control ProducerList(inout meta_t m) {
    action member(bit<16> producer, bit<16> next) {
        m.b.producer = producer;
        m.b.next = next;
    }
    action no_member() { m.off_list = 1; }
    table producer_list {
        key = {
            m.b.worker : exact;
            m.index  : exact;
        }
        actions = { member; no_member; }
        const default_action = no_member();
        size = ZSR_MAX_LIST;
    }
    apply { producer_list.apply(); }
}

control ProducerParams(inout meta_t m) {
    action producer(bytes_t mask, bit<16> data_qp) {
        m.producer_mask = mask;
        m.producer_data_qp = data_qp;
    }
    table producers {
        key = { m.b.producer : exact; }
        actions = { producer; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_PRODUCERS;
    }
    apply { producers.apply(); }
}

// The consumer rings of a replicate flow, one by one.
control Members(inout meta_t m) {
    action group_member(bit<16> poll_qp) { m.b.qp = poll_qp; }
    action no_group_member() { m.gathered = 1; }
    table members {
        key = {
            m.b.worker : exact;
            MEMBER     : exact;
        }
        actions = { group_member; no_group_member; }
        const default_action = no_group_member();
        size = ZSR_MAX_MEMBERS;
    }
    apply { members.apply(); }
}
