// What the controller reads for reports. Names and meaning are those of arch/v1model/counters.p4.
control CountArrival(inout meta_t m) {
    Counter<bit<64>, bit<16>>(ZSR_MAX_QPS, CounterType_t.PACKETS_AND_BYTES) received;
    Counter<bit<64>, bit<8>>(16, CounterType_t.PACKETS) drops;
    Counter<bit<64>, port_t>(512, CounterType_t.PACKETS) other_vlan;
    Counter<bit<64>, port_t>(512, CounterType_t.PACKETS) other_source;
    apply {
        if (m.role != 0 && m.own == 1) { received.count(m.received_qp); }
        if (m.drop_reason != 0) { drops.count(m.drop_reason); }
        if (m.drop_reason == DROP_VLAN) { other_vlan.count(m.port); }
        if (m.drop_reason == DROP_SOURCE) { other_source.count(m.port); }
    }
}

control CountDeparture(inout meta_t m) {
    Counter<bit<64>, bit<16>>(ZSR_MAX_WORKERS, CounterType_t.PACKETS) transfers;
    Counter<bit<64>, bit<16>>(ZSR_MAX_PRODUCERS, CounterType_t.PACKETS) producer_transfers;
    Counter<bit<64>, bit<16>>(ZSR_MAX_WORKERS, CounterType_t.PACKETS) retries;
    apply {
        if (m.counts == COUNT_TRANSFER) {
            transfers.count(m.b.worker);
            producer_transfers.count(m.b.producer);
        } else if (m.counts == COUNT_RETRY) { retries.count(m.b.worker); }
    }
}

// Packets and bytes that the switch made or rewrote, for each connection.
control CountEgress(inout meta_t m) {
    Counter<bit<64>, bit<16>>(ZSR_MAX_QPS, CounterType_t.PACKETS_AND_BYTES) sent;
    apply {
        if (m.sends == 1) { sent.count(m.b.qp); }
    }
}
