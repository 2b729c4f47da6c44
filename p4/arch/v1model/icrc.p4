// The ICRC: CRC-32 over the headers with their variable fields as ones, and the payload (IBTA volume 1, annex A17).
// Another architecture brings controls of the same names.
#define ICRC_HEADERS \
    64w0xffffffffffffffff, hdr.ipv4.version_ihl, 8w0xff, hdr.ipv4.total_len, hdr.ipv4.ident, hdr.ipv4.flags_frag, \
    8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src_port, hdr.udp.dst_port, \
    hdr.udp.length, 16w0xffff, hdr.bth.opcode, hdr.bth.flags, hdr.bth.pkey, 8w0xff, hdr.bth.dest_qp, hdr.bth.ack_psn
#define CRC32(result, ...) hash(result, HashAlgorithm.crc32, 32w0, __VA_ARGS__, 33w0x100000000)

// Packets whose content the switch uses: poll responses, ACKs and NAKs, FETCH_ADDs. The CRC over a packet and its ICRC is a
// constant.
const bit<32> ICRC_RIGHT = 0x2144df1c;
control IcrcCheck(inout headers_t hdr, inout meta_t m) {
    apply {
        if (hdr.word.isValid()) {
            CRC32(m.icrc, { ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.word.counter, hdr.word.flags, hdr.icrc.value });
        } else if (hdr.atomic.isValid()) {
            CRC32(m.icrc, { ICRC_HEADERS, hdr.atomic.va_hi, hdr.atomic.va_lo, hdr.atomic.rkey, hdr.atomic.add_hi,
                            hdr.atomic.add_lo, hdr.atomic.compare_hi, hdr.atomic.compare_lo, hdr.icrc.value });
        } else {
            CRC32(m.icrc, { ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.icrc.value });
        }
    }
}

// Likewise of a doorbell.
control BellCheck(inout headers_t hdr, inout meta_t m) {
    apply { CRC32(m.icrc, { hdr.doorbell.secret, hdr.doorbell.counter, hdr.doorbell.flags, hdr.doorbell.check }); }
}

// CRC state behind the headers of a READ response.
control IcrcBefore(inout headers_t hdr, inout meta_t m) {
    apply {
        if (m.old_aeth == 1) { CRC32(m.crc_old, { ICRC_HEADERS, hdr.aeth.syndrome_msn }); }
        else { CRC32(m.crc_old, { ICRC_HEADERS }); }
    }
}

// CRC state behind the headers of the WRITE that it becomes, with the free fields zero.
control IcrcAfter(inout headers_t hdr, inout meta_t m) {
    apply {
        if (m.b.first == 1) {
            CRC32(m.crc_new, { ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length });
        } else {
            CRC32(m.crc_new, { ICRC_HEADERS });
        }
    }
}

// The whole ICRC of a packet that the switch makes.
control IcrcOwn(inout headers_t hdr, inout meta_t m)(bool whole) {
    apply {
        if (hdr.word.isValid() && hdr.aeth.isValid()) {
            CRC32(m.crc_new, { ICRC_HEADERS, hdr.aeth.syndrome_msn, hdr.word.counter, hdr.word.flags });
        } else if (hdr.word.isValid()) {
            CRC32(m.crc_new, { ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length,
                               hdr.word.counter, hdr.word.flags });
        } else if (hdr.commit.isValid()) {
            CRC32(m.crc_new, { ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length,
                               hdr.commit.head, hdr.commit.flags, hdr.commit.producer_id, hdr.commit.producer_tail });
        } else {
            CRC32(m.crc_new, { ICRC_HEADERS, hdr.reth.va_hi, hdr.reth.va_lo, hdr.reth.rkey, hdr.reth.length });
        }
        hdr.icrc.value = m.crc_new[7:0] ++ m.crc_new[15:8] ++ m.crc_new[23:16] ++ m.crc_new[31:24];
    }
}
