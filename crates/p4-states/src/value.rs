//! Numbers of P4: widths, and what arithmetic does at their ends.

use std::cmp::Ordering;

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Bits(u32),
    Signed(u32),
    /// A literal without a width: takes that of the other operand.
    Whole,
    Bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Num {
    pub form: Form,
    pub n: i128,
}

/// The result of a binary operation, and the events that it met.
pub struct Computed {
    pub value: Num,
    pub order: Ordering,
    pub wraps: bool,
}

impl Num {
    pub fn bits(width: u32, n: i128) -> Num {
        Num { form: Form::Bits(width), n: wrap(Form::Bits(width), n) }
    }

    pub fn whole(n: i128) -> Num {
        Num { form: Form::Whole, n }
    }

    pub fn bool(b: bool) -> Num {
        Num { form: Form::Bool, n: i128::from(b) }
    }

    pub fn truth(self) -> Result<bool, String> {
        if self.form == Form::Bool { Ok(self.n != 0) } else { Err(format!("{self:?} is no condition")) }
    }

    /// As an operand or a value for something of this form: P4 converts nothing but literals.
    pub fn fit(self, form: Form) -> Result<Num, String> {
        if self.form == form {
            return Ok(self);
        }
        if self.form == Form::Whole && matches!(form, Form::Bits(_) | Form::Signed(_)) {
            let value = Num { form, n: wrap(form, self.n) };
            return if value.n == self.n {
                Ok(value)
            } else {
                Err(format!("{} does not fit {form:?}", self.n))
            };
        }
        Err(format!("{:?} where {form:?} is wanted", self.form))
    }

    pub fn cast(self, form: Form) -> Result<Num, String> {
        let allowed = match (self.form, form) {
            (Form::Bits(_) | Form::Whole, Form::Bits(_)) => true,
            (Form::Bits(from), Form::Signed(to)) | (Form::Signed(from), Form::Bits(to)) => from == to,
            _ => false,
        };
        if allowed {
            Ok(Num { form, n: wrap(form, self.n) })
        } else {
            Err(format!("no cast from {:?} to {form:?}", self.form))
        }
    }

    pub fn invert(self) -> Result<Num, String> {
        match self.form {
            Form::Bits(_) => Ok(Num { form: self.form, n: wrap(self.form, !self.n) }),
            form => Err(format!("~ of {form:?}")),
        }
    }

    pub fn slice(self, high: u32, low: u32) -> Result<Num, String> {
        match self.form {
            Form::Bits(width) if high < width && low <= high => Ok(Num::bits(high - low + 1, self.n >> low)),
            form => Err(format!("bits {high} to {low} of {form:?}")),
        }
    }

    /// `&&` and `||` are not here: they may leave out their right side.
    pub fn binary(self, sign: &str, other: Num) -> Result<Computed, String> {
        let left = if self.form == Form::Whole { self.fit(other.form)? } else { self };
        let right = if other.form == Form::Whole { other.fit(left.form)? } else { other };
        let form = left.form;
        if form != right.form || form == Form::Bool {
            return Err(format!("{:?} {sign} {:?}", left.form, right.form));
        }
        let order = left.n.cmp(&right.n);
        let bitwise = matches!(form, Form::Bits(_));
        let exact = match sign {
            "==" | "!=" | "<" | "<=" | ">" | ">=" => {
                let holds = match sign {
                    "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                };
                return Ok(Computed { value: Num::bool(holds), order, wraps: false });
            }
            "+" => left.n + right.n,
            "-" => left.n - right.n,
            "|-|" if bitwise => (left.n - right.n).max(0),
            "&" if bitwise => left.n & right.n,
            "|" if bitwise => left.n | right.n,
            "^" if bitwise => left.n ^ right.n,
            _ => return Err(format!("{sign} of {form:?} is not understood")),
        };
        let n = wrap(form, exact);
        Ok(Computed { value: Num { form, n }, order, wraps: n != exact })
    }
}

fn wrap(form: Form, n: i128) -> i128 {
    match form {
        Form::Bits(width) => n & ((1 << width) - 1),
        Form::Signed(width) => {
            let low = n & ((1 << width) - 1);
            if low >> (width - 1) == 1 { low - (1 << width) } else { low }
        }
        Form::Whole | Form::Bool => n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(left: Num, sign: &str, right: Num) -> Num {
        left.binary(sign, right).unwrap().value
    }

    #[test]
    fn sums_wrap_and_saturate() {
        let (zero, max) = (Num::bits(32, 0), Num::bits(32, -1));
        assert_eq!(max.n, 0xffff_ffff);
        assert_eq!(of(max, "+", Num::whole(1)), zero);
        assert_eq!(of(zero, "-", Num::whole(1)), max);
        assert_eq!(of(zero, "|-|", max), zero);
        assert_eq!(of(max, "|-|", Num::whole(5)).n, 0xffff_fffa);
        assert!(max.binary("+", Num::whole(1)).unwrap().wraps);
    }

    #[test]
    fn the_top_bit_is_the_sign() {
        let far = Num::bits(32, 0x8000_0000);
        assert_eq!(far.cast(Form::Signed(32)).unwrap().n, -0x8000_0000);
        assert_eq!(far.slice(31, 31).unwrap(), Num::bits(1, 1));
        assert_eq!(of(far.cast(Form::Signed(32)).unwrap(), "<", Num::whole(0)), Num::bool(true));
        assert_eq!(of(far, "<", Num::whole(0)), Num::bool(false));
    }

    #[test]
    fn nothing_is_converted_in_silence() {
        let (byte, word) = (Num::bits(8, 1), Num::bits(32, 1));
        assert!(byte.binary("==", word).is_err());
        assert!(byte.binary("+", Num::whole(256)).is_err());
        assert!(word.fit(Form::Bits(8)).is_err());
        assert!(word.cast(Form::Signed(8)).is_err());
        assert!(word.slice(32, 0).is_err());
        assert!(Num::bool(true).binary("+", byte).is_err());
        assert_eq!(Num::bits(32, 0x1ff).cast(Form::Bits(8)).unwrap(), Num::bits(8, 0xff));
    }
}
