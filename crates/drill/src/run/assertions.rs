//! Assertions over TCP_INFO of the connection under test.
use super::Runner;
use crate::failure::Failure;
use crate::script::Assert;
use lowwater_core::tcp::TcpInfo;

impl Runner {
    pub(super) fn assertions(&mut self, asserts: &[Assert]) -> Result<(), Box<Failure>> {
        for assert in asserts {
            let Some(info) = self.info() else {
                return Err(Failure::new(assert.line, "there is no connection to assert anything about"));
            };
            if assert.expr.value(&info) == 0 {
                let mut fields = Vec::new();
                assert.expr.fields(&info, &mut fields);
                let actual = fields.join(", ");
                return Err(Failure::differs(assert.line, "the assertion is wrong", &assert.text, actual));
            }
        }
        Ok(())
    }

    /// TCP_INFO of the connection under test, also before somebody has accepted it.
    fn info(&mut self) -> Option<TcpInfo> {
        if let Some(id) = self.sockets.latest() {
            return self.stack.tcp_info(id).ok();
        }
        let flow = self.flow.as_ref()?;
        let (local, remote) = (Some(flow.local), Some(flow.remote));
        let report = self.stack.report();
        report.sockets.into_iter().find(|s| s.local == local && s.remote == remote)?.info
    }
}
