//! Expressions over TCP_INFO: the part of Python that assertions in scripts use.
use crate::cursor::Cursor;
use crate::failure::Failure;
use lowwater_core::tcp::TcpInfo;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    Number(i64),
    /// A field of TCP_INFO.
    Field(String),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
}

/// Operators by rising strength; within a row, longer ones first.
const ROWS: [&[&str]; 6] =
    [&["or"], &["and"], &["==", "!=", "<=", ">=", "<", ">"], &["|", "&"], &["+", "-"], &["*"]];
/// Deepest nesting of parentheses and signs.
const DEPTH_MAX: usize = 64;

const CONSTANTS: &[(&str, i64)] = &[
    ("True", 1),
    ("False", 0),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
];

/// Reads `EXPR` or `EXPR, message`.
pub(crate) fn parse(text: &str, line: usize) -> Result<Expr, Box<Failure>> {
    let mut c = Cursor::new(text, line);
    let expr = row(&mut c, 0, 0)?;
    c.blank();
    if !c.rest().is_empty() && c.peek() != ',' {
        return c.fail(format!("'{}' is more than an expression", c.rest()));
    }
    Ok(expr)
}

fn row(c: &mut Cursor<'_>, level: usize, depth: usize) -> Result<Expr, Box<Failure>> {
    let Some(operators) = ROWS.get(level) else { return atom(c, depth) };
    let mut left = row(c, level + 1, depth)?;
    loop {
        let found = operators
            .iter()
            .find(|op| if op.as_bytes()[0].is_ascii_alphabetic() { c.eat_word(op) } else { c.eat(op) });
        let Some(op) = found else { return Ok(left) };
        left = Expr::Binary(op, Box::new(left), Box::new(row(c, level + 1, depth)?));
    }
}

fn atom(c: &mut Cursor<'_>, depth: usize) -> Result<Expr, Box<Failure>> {
    if depth > DEPTH_MAX {
        return c.fail("an expression nested too deeply");
    }
    c.blank();
    if c.eat("(") {
        let inner = row(c, 0, depth + 1)?;
        c.expect(")")?;
        return Ok(inner);
    }
    if c.eat_word("not") {
        return Ok(Expr::Not(Box::new(row(c, 2, depth + 1)?)));
    }
    if c.eat("-") {
        return Ok(Expr::Negative(Box::new(atom(c, depth + 1)?)));
    }
    if c.peek().is_ascii_digit() {
        return c.number().map(Expr::Number);
    }
    let name = c.word();
    if let Some((_, value)) = CONSTANTS.iter().find(|(n, _)| *n == name) {
        return Ok(Expr::Number(*value));
    }
    if field(&TcpInfo::default(), name).is_none() {
        return c.fail(format!("TCP_INFO has no '{name}' here"));
    }
    Ok(Expr::Field(name.to_owned()))
}

impl Expr {
    /// Its value for a connection.
    pub(crate) fn value(&self, info: &TcpInfo) -> i64 {
        match self {
            Self::Number(n) => *n,
            Self::Field(name) => field(info, name).unwrap_or_default(),
            Self::Not(e) => i64::from(e.value(info) == 0),
            Self::Negative(e) => e.value(info).wrapping_neg(),
            Self::Binary(op, a, b) => {
                let (a, b) = (a.value(info), b.value(info));
                match *op {
                    "or" => i64::from(a != 0 || b != 0),
                    "and" => i64::from(a != 0 && b != 0),
                    "==" => i64::from(a == b),
                    "!=" => i64::from(a != b),
                    "<=" => i64::from(a <= b),
                    ">=" => i64::from(a >= b),
                    "<" => i64::from(a < b),
                    ">" => i64::from(a > b),
                    "|" => a | b,
                    "&" => a & b,
                    "+" => a.wrapping_add(b),
                    "-" => a.wrapping_sub(b),
                    _ => a.wrapping_mul(b),
                }
            }
        }
    }

    /// The fields it names, with their values.
    pub(crate) fn fields(&self, info: &TcpInfo, out: &mut Vec<String>) {
        match self {
            Self::Number(_) => {}
            Self::Field(name) => out.push(format!("{name} = {}", field(info, name).unwrap_or_default())),
            Self::Not(e) | Self::Negative(e) => e.fields(info, out),
            Self::Binary(_, a, b) => {
                a.fields(info, out);
                b.fields(info, out);
            }
        }
    }
}

/// A field by Linux's name, `tcpi_` included.
fn field(info: &TcpInfo, name: &str) -> Option<i64> {
    let value = name.strip_prefix("tcpi_").and_then(|short| info.get(short))?;
    Some(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_python() {
        let info = TcpInfo { snd_cwnd: 10, unacked: 4, ca_state: 3, ..TcpInfo::default() };
        for (text, wanted) in [
            ("tcpi_snd_cwnd == 10", 1),
            ("tcpi_snd_cwnd == 2 + 2 * 4, tcpi_snd_cwnd", 1),
            ("not tcpi_unacked == 4", 0),
            ("tcpi_unacked == 5 or tcpi_ca_state == TCP_CA_Recovery and tcpi_unacked < 5", 1),
            ("(tcpi_unacked - 6) <= -2", 1),
            ("tcpi_unacked != 4", 0),
        ] {
            assert_eq!(parse(text, 1).expect(text).value(&info), wanted, "{text}");
        }
        assert!(parse("tcpi_nonsense == 1", 7).is_err_and(|e| e.line == 7));
        assert!(parse(&"(".repeat(100_000), 1).is_err());
    }
}
