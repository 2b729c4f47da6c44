//! The instruction set. Operands are 16-bit slot numbers. Header fields, constants, temporaries and header validity all
//! live in one array of 65536 `u64` slots, so no operand needs a bounds check.

/// A slot number.
pub(crate) type R = u16;
/// A code address.
pub(crate) type Pc = u32;

/// Comparison of two slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    LtU,
    GeU,
    LtS,
    GeS,
}

impl Cmp {
    pub(crate) fn negate(self) -> Cmp {
        match self {
            Cmp::Eq => Cmp::Ne,
            Cmp::Ne => Cmp::Eq,
            Cmp::LtU => Cmp::GeU,
            Cmp::GeU => Cmp::LtU,
            Cmp::LtS => Cmp::GeS,
            Cmp::GeS => Cmp::LtS,
        }
    }
}

/// Arithmetic on numbers of several limbs (two's complement, least significant limb first).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WideOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// One instruction. `d` is the destination, `m` the slot of a constant mask that the result is ANDed with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Mov {
        d: R,
        a: R,
        m: R,
    },
    /// Plain copies, one after the other: pairs `first..first + n` of the program's list.
    Copies {
        first: u32,
        n: u16,
    },
    /// Arguments of the running action, in the same way: slot and argument word.
    Args {
        first: u32,
        n: u16,
    },
    /// Plain copy.
    Copy {
        d: R,
        a: R,
    },
    Add {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    Sub {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    Mul {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    And {
        d: R,
        a: R,
        b: R,
    },
    Or {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    Xor {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    Not {
        d: R,
        a: R,
        m: R,
    },
    Shl {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    ShrU {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    ShrS {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    ShlK {
        d: R,
        a: R,
        k: u8,
        m: R,
    },
    ShrK {
        d: R,
        a: R,
        k: u8,
        m: R,
    },
    Div {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    Rem {
        d: R,
        a: R,
        b: R,
        m: R,
    },
    /// Sign-extends the low `w` bits (1 to 64), then masks.
    Sext {
        d: R,
        a: R,
        w: u8,
        m: R,
    },
    /// Clamps a signed number to `w` unsigned bits.
    SatU {
        d: R,
        a: R,
        w: u8,
        m: R,
    },
    /// Clamps a signed number to `w` signed bits.
    SatS {
        d: R,
        a: R,
        w: u8,
        m: R,
    },
    Set {
        d: R,
        a: R,
        b: R,
        cmp: Cmp,
    },
    /// Bits `k..` of the two limbs `a+1:a`, masked: a slice of a wide field.
    Slice {
        d: R,
        a: R,
        k: u8,
        m: R,
    },

    Jmp {
        t: Pc,
    },
    /// A jump backwards, which costs one of the packet's loop iterations.
    JmpBack {
        t: Pc,
    },
    Br {
        a: R,
        b: R,
        cmp: Cmp,
        t: Pc,
    },
    /// `Br` with `Eq`, which finishing makes of it: the comparison needs no dispatch of its own.
    BrEq {
        a: R,
        b: R,
        t: Pc,
    },
    /// `Br` with `Ne`, likewise.
    BrNe {
        a: R,
        b: R,
        t: Pc,
    },
    BrZ {
        a: R,
        t: Pc,
    },
    BrNz {
        a: R,
        t: Pc,
    },

    /// Loads `n` limbs at `d` from `s` limbs at `a`, extending by the sign of bit `w - 1` if `w` is not 0.
    WideLoad {
        d: R,
        a: R,
        s: u8,
        n: u8,
        w: u16,
    },
    Wide {
        op: WideOp,
        d: R,
        a: R,
        b: R,
        n: u8,
    },
    WideNot {
        d: R,
        a: R,
        n: u8,
    },
    /// Copies `n` limbs and clears all bits from `w` on.
    WideStore {
        d: R,
        a: R,
        n: u8,
        w: u16,
    },
    /// Sign-extends from bit `w - 1`.
    WideSext {
        d: R,
        a: R,
        n: u8,
        w: u16,
    },
    /// Clamps to `w` bits.
    WideSat {
        d: R,
        a: R,
        n: u8,
        w: u16,
        signed: bool,
    },
    /// Signed comparison.
    WideSet {
        d: R,
        a: R,
        b: R,
        n: u8,
        cmp: Cmp,
    },

    /// Argument word `i` of the running action.
    Arg {
        d: R,
        i: u16,
        m: R,
    },
    /// `d = slot[base + idx * stride]`, 0 if `idx` is not below `count`.
    LoadIdx {
        d: R,
        base: R,
        idx: R,
        stride: R,
        count: u8,
    },
    StoreIdx {
        a: R,
        base: R,
        idx: R,
        stride: R,
        count: u8,
    },
    /// The header at an index of a stack, as header number (0xffff beyond its end).
    Elem {
        d: R,
        stack: u16,
        idx: R,
    },
    /// The member of the union at an index of a union stack, as header number.
    UnionElem {
        d: R,
        stack: u16,
        idx: R,
        member: u8,
    },

    SetValid {
        h: u16,
    },
    SetInvalid {
        h: u16,
    },
    SetValidDyn {
        a: R,
    },
    SetInvalidDyn {
        a: R,
    },
    ValidDyn {
        d: R,
        a: R,
    },
    CopyHeader {
        d: u16,
        s: u16,
    },
    CopyHeaderDyn {
        d: R,
        s: R,
    },
    EqHeader {
        d: R,
        a: R,
        b: R,
    },
    CopyVarbit {
        d: R,
        a: R,
    },
    EqVarbit {
        d: R,
        a: R,
        b: R,
    },
    Push {
        stack: u16,
        n: R,
    },
    Pop {
        stack: u16,
        n: R,
    },
    PushUnion {
        stack: u16,
        n: R,
    },
    PopUnion {
        stack: u16,
        n: R,
    },

    RegRead {
        d: R,
        reg: u16,
        idx: R,
        m: R,
    },
    RegWrite {
        reg: u16,
        idx: R,
        a: R,
    },
    RegReadWide {
        d: R,
        reg: u16,
        idx: R,
        n: u8,
    },
    RegWriteWide {
        reg: u16,
        idx: R,
        a: R,
        n: u8,
    },
    Count {
        counter: u16,
        idx: R,
    },
    Meter {
        d: R,
        meter: u16,
        idx: R,
        m: R,
    },
    /// `d = (hash % size + base) & m`, size 0 counting as 1.
    Hash {
        d: R,
        calc: u16,
        base: R,
        size: R,
        m: R,
    },
    /// Writes the calculation's result.
    Calc {
        d: R,
        calc: u16,
        m: R,
    },
    Random {
        d: R,
        lo: R,
        hi: R,
        m: R,
    },
    Digest {
        a: R,
    },
    Clone {
        session: R,
        list: R,
    },
    Resubmit {
        list: R,
    },
    Recirculate {
        list: R,
    },
    Truncate {
        a: R,
    },
    /// `egress_spec` to the drop port, `mcast_grp` to 0.
    Drop,
    /// `assert` or `assume` number `site` does not hold.
    AssertFailed {
        site: u32,
    },
    /// Note number `site` of a traced program.
    Note {
        site: u32,
    },

    Apply {
        t: u16,
    },
    /// End of an action: on to the node that its table named, unless the action exits.
    Ret,
    Exit,
    /// To `t` if the packet is marked for exit.
    BrExit {
        t: Pc,
    },
    /// End of the parser, of a control, of the deparser.
    End,

    /// Costs one loop iteration (entry of a parser state that lies on a cycle).
    Guard,
    Extract {
        h: u16,
    },
    /// To the next element of a stack.
    ExtractNext {
        stack: u16,
    },
    ExtractNextUnion {
        stack: u16,
        member: u8,
    },
    /// Length in bits in slot `len`.
    ExtractVar {
        h: u16,
        len: R,
    },
    ExtractVarNext {
        stack: u16,
        len: R,
    },
    ExtractVarNextUnion {
        stack: u16,
        member: u8,
        len: R,
    },
    /// `width` bits (1 to 64) at `bit` beyond the cursor.
    Lookahead {
        d: R,
        bit: u32,
        width: u8,
    },
    /// Moves the cursor by so many bits.
    Advance {
        a: R,
    },
    /// Ends the parser with the error in a slot.
    ParseError {
        a: R,
    },
    /// To `t` if the value set has the key.
    BrSet {
        set: u16,
        t: Pc,
    },
    /// Verifies a checksum: sets the error flag if `a` is not the calculation's result.
    CheckSum {
        a: R,
        calc: u16,
    },
}
