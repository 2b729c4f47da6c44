// What the controller reads for reports. Another architecture brings controls of the same names.

// Packets and bytes received on each connection, packets dropped for each reason.
control CountArrival(inout meta_t m) {
    counter(ZSR_MAX_QPS, CounterType.packets_and_bytes) received;
    counter(16, CounterType.packets) drops;
    counter(512, CounterType.packets) other_vlan;      // by port
    counter(512, CounterType.packets) other_source;    // likewise
    apply {
        if (m.role != 0 && m.own == 1) { received.count((bit<32>)m.received_qp); }
        if (m.drop_reason != 0) { drops.count((bit<32>)m.drop_reason); }
        if (m.drop_reason == DROP_VLAN) { other_vlan.count((bit<32>)m.port); }
        if (m.drop_reason == DROP_SOURCE) { other_source.count((bit<32>)m.port); }
    }
}

// Transfers of each worker and out of each producer ring, retries of each worker.
control CountDeparture(inout meta_t m) {
    counter(ZSR_MAX_WORKERS, CounterType.packets) transfers;
    counter(ZSR_MAX_PRODUCERS, CounterType.packets) producer_transfers;
    counter(ZSR_MAX_WORKERS, CounterType.packets) retries;
    apply {
        if (m.counts == COUNT_TRANSFER) {
            transfers.count((bit<32>)m.b.worker);
            producer_transfers.count((bit<32>)m.b.producer);
        } else if (m.counts == COUNT_RETRY) { retries.count((bit<32>)m.b.worker); }
    }
}

// Packets and bytes that the switch made or rewrote, for each connection.
control CountEgress(inout meta_t m) {
    counter(ZSR_MAX_QPS, CounterType.packets_and_bytes) sent;
    apply {
        if (m.sends == 1) { sent.count((bit<32>)m.b.qp); }
    }
}
