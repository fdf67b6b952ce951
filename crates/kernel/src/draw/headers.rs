//! What the kernel of this host reserves for headers (`MAX_TCP_HEADER`), which follows its configuration: how large an element of the send
//! queue grows depends on it.
use super::stack::{HEADERS, Place};
use super::{life, on_kernel};
use std::sync::OnceLock;

/// A segment of so many bytes with such headers and `skb_shared_info` fills half of a page, by which send buffers are measured
/// (`tcp_sndbuf_expand`); with more of them it fills a page.
const STEPS: [(u16, u32); 2] = [(480, 192), (420, 256)];
/// One that takes half of a page whatever is reserved.
const SMALL: u16 = 100;

/// As measured, once for all seeds.
///
/// # Errors
/// What the kernel lacks, in a sentence.
pub(super) fn of_host() -> Result<u32, String> {
    static HOST: OnceLock<Result<u32, String>> = OnceLock::new();
    HOST.get_or_init(|| measure(|mss| on_kernel(Place::default(), move |kernel| life::sndbuf(kernel, mss))))
        .clone()
}

/// `sndbuf` tells how large the send buffer of a connection is whose peer has that MSS.
fn measure(sndbuf: impl Fn(u16) -> Result<String, String>) -> Result<u32, String> {
    let half_page = sndbuf(SMALL)?;
    for (mss, headers) in STEPS {
        if sndbuf(mss)? == half_page {
            return Ok(headers);
        }
    }
    Ok(HEADERS)
}

#[cfg(test)]
mod tests {
    use super::super::stack::Stack;
    use super::*;

    #[test]
    fn send_buffers_tell_what_is_reserved() {
        for headers in [192, 256, 320] {
            let of_stack = |mss| life::sndbuf(&mut Stack::new(headers)?, mss);
            assert_eq!(measure(of_stack), Ok(headers));
        }
    }
}
