// The ICRC: CRC-32 over the headers with their variable fields as ones (IBTA volume 1, annex A17), by hash units.
// Names and meaning are those of arch/v1model/icrc.p4.
#define ICRC_HEADERS \
    64w0xffffffffffffffff, hdr.ipv4.version_ihl, 8w0xff, hdr.ipv4.total_len, hdr.ipv4.ident, hdr.ipv4.flags_frag, \
    8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src_port, hdr.udp.dst_port, \
    hdr.udp.length, 16w0xffff, hdr.bth.opcode, hdr.bth.flags, hdr.bth.pkey, 8w0xff, hdr.bth.dest_qp, hdr.bth.ack_psn
#define CRC32(name) Hash<bit<32>>(HashAlgorithm_t.CUSTOM, polynomial) name
#define POLYNOMIAL CRCPolynomial<bit<32>>(32w0x04C11DB7, true, false, false, 32w0xFFFFFFFF, 32w0xFFFFFFFF) polynomial

// Packets whose content the switch uses: poll responses, ACKs and NAKs, FETCH_ADDs. The CRC over a packet and its ICRC is a
// constant.
const bit<32> ICRC_RIGHT = 0x2144df1c;
control IcrcCheck(inout headers_t hdr, inout meta_t m) {
    POLYNOMIAL;
    CRC32(with_word);
#ifdef ZSR_SEQUENCER
    CRC32(with_atomic);
#endif
    CRC32(without);
    apply {
        if (hdr.word.isValid()) {
            m.icrc = with_word.get({ ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.word.counter, hdr.word.flags,
                                     hdr.icrc.value });
#ifdef ZSR_SEQUENCER
        } else if (hdr.atomic.isValid()) {
            m.icrc = with_atomic.get({ ICRC_HEADERS, hdr.atomic.va_hi, hdr.atomic.va_lo, hdr.atomic.rkey,
                                       hdr.atomic.add_hi, hdr.atomic.add_lo, hdr.atomic.compare_hi,
                                       hdr.atomic.compare_lo, hdr.icrc.value });
#endif
        } else {
            m.icrc = without.get({ ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.icrc.value });
        }
    }
}

// Likewise of a doorbell.
control BellCheck(inout headers_t hdr, inout meta_t m) {
    POLYNOMIAL;
    CRC32(whole);
    apply {
        m.icrc = whole.get({ hdr.doorbell.secret, hdr.doorbell.counter, hdr.doorbell.flags, hdr.doorbell.check });
    }
}

// CRC state behind the headers of a READ response.
control IcrcBefore(inout headers_t hdr, inout meta_t m) {
    POLYNOMIAL;
    CRC32(with_aeth);
    CRC32(without);
    apply {
        if (m.old_aeth == 1) { m.crc_old = with_aeth.get({ ICRC_HEADERS, hdr.aeth.syndrome_msn }); }
        else { m.crc_old = without.get({ ICRC_HEADERS }); }
    }
}

// CRC state behind the headers of the WRITE that it becomes, with the free fields zero.
control IcrcAfter(inout headers_t hdr, inout meta_t m) {
    POLYNOMIAL;
    CRC32(with_reth);
    CRC32(without);
    apply {
        if (m.b.first == 1) {
            m.crc_new = with_reth.get({ ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey,
                                        hdr.reth.length });
        } else {
            m.crc_new = without.get({ ICRC_HEADERS });
        }
    }
}

// The whole ICRC of a packet that the switch makes.
control IcrcOwn(inout headers_t hdr, inout meta_t m)(bool whole) {
    POLYNOMIAL;
    CRC32(read);
    CRC32(tail);
    CRC32(commit);
#ifdef ZSR_SEQUENCER
    CRC32(ticket);
#endif
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) little_endian;
    // In the order in which they can begin: a table is in no earlier stage than the one in front of it, and the commit record's
    // words are swapped last.
    apply {
#ifdef ZSR_SEQUENCER
        if (hdr.aeth.isValid()) {
            m.crc_new = ticket.get({ ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.word.counter, hdr.word.flags });
        } else
#endif
        if ((!whole || !hdr.word.isValid()) && !hdr.commit.isValid()) {
            m.crc_new = read.get({ ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length });
        } else if (whole && hdr.word.isValid()) {
            m.crc_new = tail.get({ ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length,
                                   hdr.word.counter, hdr.word.flags });
        } else {
            m.crc_new = commit.get({ ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length,
                                     hdr.commit.head, hdr.commit.flags, hdr.commit.producer_id,
                                     hdr.commit.producer_tail });
        }
        hdr.icrc.value = little_endian.get({ m.crc_new[7:0], m.crc_new[15:8], m.crc_new[23:16], m.crc_new[31:24] });
    }
}
