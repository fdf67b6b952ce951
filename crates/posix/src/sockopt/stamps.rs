//! SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING and their newer numbers (`sock_set_timestamp`, `sock_set_timestamping`).
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::timestamping::Stamping;

/// What such an option reads back.
pub(super) fn get(s: Stamping, name: i32) -> Told {
    match name {
        SO_TIMESTAMP => Told::Int((s.receive && !s.new && !s.nanos).into()),
        SO_TIMESTAMP_NEW => Told::Int((s.receive && s.new).into()),
        SO_TIMESTAMPNS => Told::Int((s.nanos && !s.new).into()),
        SO_TIMESTAMPNS_NEW => Told::Int((s.nanos && s.new).into()),
        // The flags, and a hardware clock that there is not. The newer number tells only what it has set itself.
        _ if name == SO_TIMESTAMPING || s.new => Told::copy(&[s.flags, 0].map(i32::to_ne_bytes).concat()),
        _ => Told::copy(&[0; 8]),
    }
}

impl Host {
    pub(super) fn set_stamps(&mut self, fd: Fd, name: i32, value: &Value<'_>) -> Result<(), Errno> {
        let n = value.int()?;
        if matches!(name, SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) {
            return self.set_stamping(fd, n, name == SO_TIMESTAMPING_NEW);
        }
        let s = &mut self.files.sock_mut(fd)?.knobs.stamping;
        s.receive = n != 0;
        s.nanos = n != 0 && matches!(name, SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW);
        if n != 0 {
            s.new = matches!(name, SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW);
        }
        Ok(())
    }

    fn set_stamping(&mut self, fd: Fd, flags: i32, new: bool) -> Result<(), Errno> {
        let has = |flag| flags & flag != 0;
        let lonely = has(SOF_TIMESTAMPING_OPT_ID_TCP) && !has(SOF_TIMESTAMPING_OPT_ID);
        let stats = has(SOF_TIMESTAMPING_OPT_STATS) && !has(SOF_TIMESTAMPING_OPT_TSONLY);
        if flags & !SOF_TIMESTAMPING_MASK != 0 || lonely {
            return Err(Errno::EINVAL);
        }
        let counts = self.files.sock(fd)?.knobs.stamping.flags & SOF_TIMESTAMPING_OPT_ID != 0;
        if has(SOF_TIMESTAMPING_OPT_ID) && !counts {
            self.count_from_here(fd, has(SOF_TIMESTAMPING_OPT_ID_TCP))?;
        }
        if stats {
            return Err(Errno::EINVAL);
        }
        // No device has a clock.
        if has(SOF_TIMESTAMPING_BIND_PHC) {
            return Err(Errno::EOPNOTSUPP);
        }
        let s = &mut self.files.sock_mut(fd)?.knobs.stamping;
        (s.flags, s.new) = (flags, new);
        self.keep_moments(fd);
        Ok(())
    }

    /// Bytes are numbered from what is not acknowledged yet, or from what will be `written` next.
    fn count_from_here(&mut self, fd: Fd, written: bool) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        if !sock.is_tcp() {
            return Ok(());
        }
        let Kind::Conn(id) = sock.kind else { return Err(Errno::EINVAL) };
        if self.is_over(id) {
            return Err(Errno::EINVAL);
        }
        let base = self.stack.tcp_progress(id).map_or(0, |p| if written { p.end } else { p.una });
        self.files.sock_mut(fd)?.knobs.feedback.get_or_insert_default().stamps.base = base;
        Ok(())
    }
}
