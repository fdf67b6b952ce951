//! One run as the guest is asked for it: the lab's parameters by name, and the settings that differ from the stack's defaults.
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// A number.
    Number(f64),
    /// Words.
    Words(String),
}

/// A run of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its name, under which its figures come back.
    pub name: String,
    /// The variant that it is of.
    pub variant: String,
    /// All parameters of the experiment under the lab's names.
    pub params: Vec<(String, Param)>,
    /// Sysctls of both hosts that are not the stack's defaults.
    pub sysctl: Vec<(String, String)>,
    /// Parameters and sysctls that somebody has changed, but for its times. Only whether the guest can follow is decided by them.
    pub changed: Vec<String>,
}

impl Run {
    /// The number of that name.
    pub(crate) fn number(&self, name: &str) -> Result<f64, String> {
        match self.param(name) {
            Some(Param::Number(number)) => Ok(*number),
            _ => Err(format!("the run has no number {name}")),
        }
    }

    /// The words of that name.
    pub(crate) fn words(&self, name: &str) -> Result<&str, String> {
        match self.param(name) {
            Some(Param::Words(words)) => Ok(words),
            _ => Err(format!("the run has no words {name}")),
        }
    }

    /// A sysctl that is not the default.
    pub(crate) fn sysctl(&self, name: &str) -> Option<&str> {
        self.sysctl.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Until measuring begins, and how long it takes; nothing of both where the experiment has no such times.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        let of = |name| self.number(name).unwrap_or(0.0);
        (of("warmup_s"), of("measure_s"))
    }

    /// The parameter as milliseconds.
    pub(crate) fn ms(&self, name: &str) -> Result<Duration, String> {
        Ok(Duration::from_secs_f64(self.number(name)? / 1e3))
    }

    fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(crate) fn to_json(&self) -> Value {
        let value = |param: &Param| match param {
            Param::Number(number) => json!(number),
            Param::Words(words) => json!(words),
        };
        let params: Map<_, _> = self.params.iter().map(|(name, p)| (name.clone(), value(p))).collect();
        let sysctl: Map<_, _> = self.sysctl.iter().map(|(name, v)| (name.clone(), json!(v))).collect();
        json!({ "name": self.name, "variant": self.variant, "params": params, "sysctl": sysctl })
    }

    pub(crate) fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let param = |v: &Value| {
            v.as_f64().map(Param::Number).or_else(|| v.as_str().map(|words| Param::Words(words.to_owned())))
        };
        let params = value.get("params")?.as_object()?;
        let sysctl = value.get("sysctl")?.as_object()?;
        Some(Self {
            name: text("name")?,
            variant: text("variant")?,
            params: params.iter().map(|(k, v)| Some((k.clone(), param(v)?))).collect::<Option<_>>()?,
            sysctl: sysctl
                .iter()
                .map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
            changed: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_is_what_was_asked() {
        let run = Run {
            name: "a/1".to_owned(),
            variant: "a".to_owned(),
            params: vec![
                ("measure_s".to_owned(), Param::Number(2.5)),
                ("qdisc".to_owned(), Param::Words("fq".to_owned())),
            ],
            sysctl: vec![("tcp_rmem".to_owned(), "1 2 3".to_owned())],
            changed: Vec::new(),
        };
        assert_eq!(Run::parse(&run.to_json()).as_ref(), Some(&run));
        assert_eq!((run.number("measure_s"), run.words("qdisc")), (Ok(2.5), Ok("fq")));
        assert_eq!((run.seconds(), run.sysctl("tcp_rmem")), ((0.0, 2.5), Some("1 2 3")));
        assert!(run.number("qdisc").is_err() && run.words("rtt_ms").is_err());
    }
}
