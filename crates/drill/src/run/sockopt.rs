//! Socket options by name.
use super::Runner;
use super::calls::{failed, number};
use super::sockets::{Answer, Kind};
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};
use lowwater_core::base::Duration;
use lowwater_core::tcp::SocketOptions;

/// Smallest SO_SNDBUF and SO_RCVBUF, doubled (`SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const SNDBUF_MIN: u32 = 4_608;
const RCVBUF_MIN: u32 = 2_304;
/// What a script may ask for before it is doubled (`net.core.wmem_max`).
const WMEM_MAX: u32 = 212_992;

impl Runner {
    pub(super) fn setsockopt(
        &mut self,
        line: usize,
        fd: i64,
        spec: &CallSpec,
    ) -> Result<Answer, Box<Failure>> {
        let name = option(line, spec)?;
        let value = spec.args.get(3).cloned().unwrap_or(Value::Any);
        let Some(sock) = self.sockets.get(fd) else { return Ok(Answer::Failed("EBADF")) };
        let kind = sock.kind;
        let mut options = sock.options.clone();
        if let Kind::Conn(id) | Kind::Listener(id) = kind {
            match self.stack.options(id) {
                Ok(live) => options = live.clone(),
                Err(e) => return Ok(failed(e)),
            }
        }
        let rmem_max = self.stack.sysctl().rmem_max;
        let known = set(&mut options, name, &value, rmem_max);
        let Some(result) = known else {
            return Err(Failure::new(line, format!("setting {name} does not work yet")));
        };
        if let Err(errno) = result {
            return Ok(Answer::Failed(errno));
        }
        match kind {
            Kind::Conn(id) | Kind::Listener(id) => {
                Ok(self.stack.set_options(self.now, id, options).map_or_else(failed, |()| Answer::Done(0)))
            }
            Kind::Fresh => {
                if let Some(sock) = self.sockets.get(fd) {
                    sock.options = options;
                }
                Ok(Answer::Done(0))
            }
        }
    }

    pub(super) fn getsockopt(
        &mut self,
        line: usize,
        fd: i64,
        spec: &CallSpec,
    ) -> Result<Answer, Box<Failure>> {
        let name = option(line, spec)?;
        let Some(sock) = self.sockets.get(fd) else { return Ok(Answer::Failed("EBADF")) };
        let kind = sock.kind;
        let mut options = sock.options.clone();
        let mut info = None;
        if let Kind::Conn(id) | Kind::Listener(id) = kind {
            info = self.stack.tcp_info(id).ok();
            options = self.stack.options(id).cloned().unwrap_or(options);
        }
        let actual = match (name, kind) {
            ("SO_ERROR", Kind::Conn(id)) => self.stack.take_error(id).map_or(0, |e| names::errno(e).1),
            ("SO_ERROR", _) => 0,
            ("SO_TYPE", _) => 1,
            ("TCP_MAXSEG", _) => match info {
                Some(info) => i64::from(info.snd_mss),
                None if options.maxseg > 0 => i64::from(options.maxseg),
                None => 536,
            },
            _ => match get(&options, name, self.stack.sysctl()) {
                Some(n) => n,
                None => return Err(Failure::new(line, format!("reading {name} does not work yet"))),
            },
        };
        match spec.args.get(3).and_then(Value::int) {
            Some(expected) if expected != actual => {
                let what = format!("{name} has another value");
                Err(Failure::differs(line, what, expected.to_string(), actual.to_string()))
            }
            _ => Ok(Answer::Done(0)),
        }
    }
}

/// The option's name.
fn option(line: usize, spec: &CallSpec) -> Result<&'static str, Box<Failure>> {
    let (level, number) = (number(line, spec, 1)?, number(line, spec, 2)?);
    names::option(level, number)
        .ok_or_else(|| Failure::new(line, format!("option {number} of level {level} does not work yet")))
}

/// Sets an option; `None` for one that the runner does not know.
fn set(o: &mut SocketOptions, name: &str, value: &Value, rmem_max: u32) -> Option<Result<(), &'static str>> {
    if name == "SO_LINGER" {
        let field = |n| value.field(n).and_then(Value::int);
        let (Some(on), Some(secs)) = (field("onoff"), field("linger")) else { return Some(Err("EINVAL")) };
        o.linger = (on != 0).then(|| Duration::from_secs(u64::try_from(secs).unwrap_or(0)));
        return Some(Ok(()));
    }
    let Some(n) = value.int() else { return Some(Err("EINVAL")) };
    let number = u32::try_from(n).unwrap_or(u32::MAX);
    let double = |max: u32, min: u32| Some(number.min(max).saturating_mul(2).max(min));
    let within = |low: u32, high: u32| {
        if n >= 0 && (low..=high).contains(&number) { Ok(number) } else { Err("EINVAL") }
    };
    let narrow = |r: Result<u32, &'static str>, to: &mut u32| r.map(|v| *to = v);
    Some(match name {
        "SO_REUSEADDR" | "SO_REUSEPORT" => Ok(()),
        "TCP_NODELAY" => {
            o.nodelay = n != 0;
            Ok(())
        }
        "TCP_CORK" => {
            o.cork = n != 0;
            Ok(())
        }
        "SO_KEEPALIVE" => {
            o.keepalive = n != 0;
            Ok(())
        }
        "SO_SNDBUF" => {
            o.sndbuf = double(WMEM_MAX, SNDBUF_MIN);
            Ok(())
        }
        "SO_RCVBUF" => {
            o.rcvbuf = double(rmem_max, RCVBUF_MIN);
            Ok(())
        }
        "TCP_LINGER2" => {
            o.linger2 = i32::try_from(n).unwrap_or(i32::MAX);
            Ok(())
        }
        "SO_MAX_PACING_RATE" => {
            o.max_pacing_rate = u64::try_from(n).unwrap_or(u64::MAX);
            Ok(())
        }
        "TCP_KEEPIDLE" => narrow(within(1, 32_767), &mut o.keepidle),
        "TCP_KEEPINTVL" => narrow(within(1, 32_767), &mut o.keepintvl),
        "TCP_KEEPCNT" => narrow(within(1, 127), &mut o.keepcnt),
        "TCP_USER_TIMEOUT" => narrow(within(0, u32::MAX), &mut o.user_timeout_ms),
        "TCP_NOTSENT_LOWAT" => narrow(within(0, u32::MAX), &mut o.notsent_lowat),
        "TCP_WINDOW_CLAMP" => narrow(within(0, u32::MAX), &mut o.window_clamp),
        "TCP_SYNCNT" => within(1, 127).map(|v| o.syncnt = v as u8),
        "IP_TOS" => within(0, 255).map(|v| o.tos = v as u8 & !3),
        "IP_TTL" => within(1, 255).map(|v| o.ttl = v as u8),
        // 88 is TCP_MIN_MSS, 32767 is MAX_TCP_WINDOW.
        "TCP_MAXSEG" if n == 0 => {
            o.maxseg = 0;
            Ok(())
        }
        "TCP_MAXSEG" => within(88, 32_767).map(|v| o.maxseg = v as u16),
        _ => return None,
    })
}

/// Reads an option; `None` for one that the runner does not know.
fn get(o: &SocketOptions, name: &str, sysctl: &lowwater_core::base::Sysctl) -> Option<i64> {
    let or = |value: u32, default: u32| i64::from(if value == 0 { default } else { value });
    Some(match name {
        "SO_REUSEADDR" | "SO_REUSEPORT" => 1,
        "TCP_NODELAY" => o.nodelay.into(),
        "TCP_CORK" => o.cork.into(),
        "SO_KEEPALIVE" => o.keepalive.into(),
        "TCP_KEEPIDLE" => or(o.keepidle, sysctl.tcp_keepalive_time),
        "TCP_KEEPINTVL" => or(o.keepintvl, sysctl.tcp_keepalive_intvl),
        "TCP_KEEPCNT" => or(o.keepcnt, sysctl.tcp_keepalive_probes),
        "TCP_SYNCNT" => or(o.syncnt.into(), sysctl.tcp_syn_retries),
        "TCP_USER_TIMEOUT" => o.user_timeout_ms.into(),
        "TCP_NOTSENT_LOWAT" => o.notsent_lowat.into(),
        "TCP_WINDOW_CLAMP" => o.window_clamp.into(),
        "SO_SNDBUF" => i64::from(o.sndbuf.unwrap_or(sysctl.tcp_wmem.default)),
        "SO_RCVBUF" => i64::from(o.rcvbuf.unwrap_or(sysctl.tcp_rmem.default)),
        "IP_TOS" => o.tos.into(),
        _ => return None,
    })
}
