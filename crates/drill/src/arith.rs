//! The shell's arithmetic, `$[256*1024]` and `$((1 + 2))`: whole numbers, `+ - * / %` and parentheses.
use std::iter::Peekable;
use std::str::Chars;

/// Parentheses in one another.
const DEPTH_MAX: usize = 16;

/// What stands behind a `$` from its bracket on: the value, and how many characters it takes. `None` for what is no such sum.
pub(crate) fn value(text: &str) -> Option<(i64, usize)> {
    let (inner, end) = match text.strip_prefix("((") {
        Some(inner) => (inner, "))"),
        None => (text.strip_prefix('[')?, "]"),
    };
    let inner = &inner[..inner.find(end)?];
    let mut chars = inner.chars().peekable();
    let value = sum(&mut chars, 0)?;
    chars.next().is_none().then_some((value, inner.len() + 2 * end.len()))
}

/// A sum may have this in it, its brackets included.
pub(crate) const fn is_part(c: char) -> bool {
    matches!(c, '0'..='9' | '+' | '-' | '*' | '/' | '%' | '(' | ')' | '[' | ']' | ' ' | '\t')
}

fn blank(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
}

fn sum(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Option<i64> {
    let mut value = product(chars, depth)?;
    while let Some(sign) = chars.next_if(|c| matches!(c, '+' | '-')) {
        let next = product(chars, depth)?;
        value = if sign == '+' { value.checked_add(next)? } else { value.checked_sub(next)? };
    }
    Some(value)
}

fn product(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Option<i64> {
    let mut value = number(chars, depth)?;
    while let Some(sign) = chars.next_if(|c| matches!(c, '*' | '/' | '%')) {
        let next = number(chars, depth)?;
        value = match sign {
            '*' => value.checked_mul(next)?,
            '/' => value.checked_div(next)?,
            _ => value.checked_rem(next)?,
        };
    }
    Some(value)
}

/// A number or a sum in parentheses, with the blanks on both sides.
fn number(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Option<i64> {
    blank(chars);
    let value = if chars.next_if_eq(&'(').is_some() {
        if depth == DEPTH_MAX {
            return None;
        }
        let value = sum(chars, depth + 1)?;
        chars.next_if_eq(&')')?;
        value
    } else {
        let mut digits = String::new();
        digits.extend(std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)));
        // A number with a zero in front is octal in sh, which nobody means.
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        digits.parse().ok()?
    };
    blank(chars);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_sh_makes_of_them() {
        for (text, wanted) in [
            ("[256*1024]", Some((262_144, 10))),
            ("[ 1 + 2 * 3 ] x", Some((7, 13))),
            ("((7/2 - 10%4))", Some((1, 14))),
            ("[2*(3+4)]", Some((14, 9))),
            ("[1/0]", None),
            ("[9223372036854775807+1]", None),
            ("[x+1]", None),
            ("[010]", None),
            ("[1", None),
            ("[]", None),
            ("HOME", None),
        ] {
            assert_eq!(value(text), wanted, "{text}");
        }
        // Nothing makes it go too deep.
        assert_eq!(value(&format!("[{}1{}]", "(".repeat(1_000), ")".repeat(1_000))), None);
    }
}
