//! Shell commands in scripts: sysctl is carried out on the stack's settings, everything else is refused.
use super::Runner;
use crate::failure::Failure;

impl Runner {
    pub(super) fn commands(&mut self, lines: &[(usize, String)]) -> Result<(), Box<Failure>> {
        for (line, text) in lines {
            self.command(text).map_err(|what| Failure::new(*line, what))?;
        }
        Ok(())
    }

    fn command(&mut self, text: &str) -> Result<(), String> {
        let Some(("sysctl", rest)) = text.split_once(char::is_whitespace) else {
            return Err(format!("only `sysctl -q NAME=VALUE` works here, not `{text}`"));
        };
        let mut rest = rest.trim();
        while let Some(after) = rest.strip_prefix("-q").or_else(|| rest.strip_prefix("-w")) {
            rest = after.trim_start();
        }
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or_else(|| format!("'{rest}' is no NAME=VALUE"))?;
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (value, next) = match quote {
                Some(q) => after[1..].split_once(q).ok_or("a quotation that does not end")?,
                None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
            };
            self.stack.set_sysctl(name.trim().trim_matches(['"', '\'']), value)?;
            rest = next.trim();
        }
        Ok(())
    }
}
