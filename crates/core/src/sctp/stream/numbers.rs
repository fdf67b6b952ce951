//! The next number of each stream of one direction. What was never used is 0 and costs nothing: a peer may ask for 65,535 streams.

/// Streams that share a page.
const PAGE: usize = 32;

/// Numbers of streams, in pages of neighbours.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// By the number of the page.
    pages: Vec<(u16, Box<[u16; PAGE]>)>,
}

const fn place(stream: u16) -> (u16, usize) {
    (stream / PAGE as u16, stream as usize % PAGE)
}

impl Numbers {
    /// The next number of this stream.
    pub(super) fn get(&self, stream: u16) -> u16 {
        let (page, at) = place(stream);
        self.pages.binary_search_by_key(&page, |(page, _)| *page).map_or(0, |found| self.pages[found].1[at])
    }

    /// Sets it.
    pub(super) fn set(&mut self, stream: u16, next: u16) {
        let (page, at) = place(stream);
        let found = self.pages.binary_search_by_key(&page, |(page, _)| *page).unwrap_or_else(|new| {
            // One page is what most associations need.
            self.pages.reserve_exact(if self.pages.is_empty() { 1 } else { self.pages.len() });
            self.pages.insert(new, (page, Box::new([0; PAGE])));
            new
        });
        self.pages[found].1[at] = next;
    }

    /// This stream begins anew.
    pub(super) fn reset(&mut self, stream: u16) {
        let (page, at) = place(stream);
        if let Ok(found) = self.pages.binary_search_by_key(&page, |(page, _)| *page) {
            self.pages[found].1[at] = 0;
        }
    }

    /// All streams begin anew.
    pub(super) fn clear(&mut self) {
        self.pages = Vec::new();
    }

    /// Bytes of a page, with its place in the list.
    pub(super) const PAGE_BYTES: usize = size_of::<(u16, Box<[u16; PAGE]>)>() + size_of::<[u16; PAGE]>();

    /// Memory that it holds, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.pages.len() * Self::PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_counts_by_itself_and_pages_come_when_they_are_used() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.get(65_535), numbers.bytes()), (0, 0));
        for stream in [65_535, 0, 31, 32, 1_000] {
            numbers.set(stream, stream ^ 7);
        }
        for stream in [65_535, 0, 31, 32, 1_000] {
            assert_eq!(numbers.get(stream), stream ^ 7);
        }
        assert_eq!((numbers.get(33), numbers.pages.len()), (0, 4));
        assert!(numbers.bytes() <= 4 * 96);
        numbers.clear();
        assert_eq!((numbers.get(31), numbers.bytes()), (0, 0));
    }
}
