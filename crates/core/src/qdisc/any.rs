//! Any of the disciplines, without a pointer in between; and one of your own behind one.
use super::look::{LinkFacts, Size};
use super::stats::{Field, Report, Stats};
use super::{Codel, Dequeued, Fifo, Fq, FqCodel, Gone, Mq, Netem, Noqueue, PfifoFast, Qdisc, Tbf};
use crate::base::Cx;
use crate::packet::Packet;

macro_rules! any {
    ($($(#[$doc:meta])* $variant:ident($type:ty),)*) => {
        /// A discipline.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "a device has one, and every packet passes through it")]
        pub enum Any { $($(#[$doc])* $variant($type),)* }

        impl Any {
            /// Size of the packet whose turn is next, where it can be known without taking it out.
            pub(super) fn front(&self) -> Option<Size> {
                match self {
                    Self::Fifo(q) => q.front(),
                    Self::PfifoFast(q) => q.front(),
                    _ => None,
                }
            }

            #[inline]
            fn get(&self) -> &dyn Qdisc {
                match self { $(Self::$variant(q) => q as &dyn Qdisc,)* }
            }
        }

        impl Qdisc for Any {
            fn name(&self) -> &'static str { self.get().name() }
            fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
                match self { $(Self::$variant(q) => q.attach(cx, link),)* }
            }
            fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
                match self { $(Self::$variant(q) => q.enqueue(cx, packet, gone),)* }
            }
            fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
                match self { $(Self::$variant(q) => q.dequeue(cx, gone),)* }
            }
            fn take(&mut self) -> Option<Packet> {
                match self { $(Self::$variant(q) => q.take(),)* }
            }
            fn each(&self, f: &mut dyn FnMut(&Packet)) { self.get().each(f) }
            #[inline]
            fn stats(&self) -> &Stats {
                match self { $(Self::$variant(q) => q.stats(),)* }
            }
            fn stats_mut(&mut self) -> Option<&mut Stats> {
                match self { $(Self::$variant(q) => q.stats_mut(),)* }
            }
            fn options(&self, out: &mut Vec<Field>) { self.get().options(out) }
            fn details(&self, out: &mut Vec<Field>) { self.get().details(out) }
            fn honours_departure(&self) -> bool {
                match self { $(Self::$variant(q) => q.honours_departure(),)* }
            }
            fn children(&self) -> Vec<Report> { self.get().children() }
            fn report(&self) -> Report { self.get().report() }
        }

        $(impl From<$type> for Any {
            fn from(q: $type) -> Self { Self::$variant(q) }
        })*
    };
}

any! {
    /// `pfifo` and `bfifo`.
    Fifo(Fifo),
    /// `fq`.
    Fq(Fq),
    /// `noqueue`.
    Noqueue(Noqueue),
    /// `pfifo_fast`.
    PfifoFast(PfifoFast),
    /// `codel`.
    Codel(Codel),
    /// `fq_codel`.
    FqCodel(FqCodel),
    /// `tbf`.
    Tbf(Tbf),
    /// `netem`.
    Netem(Netem),
    /// `mq`.
    Mq(Mq),
    /// One of your own.
    Custom(Box<dyn Qdisc>),
}

impl Qdisc for Box<dyn Qdisc> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        (**self).attach(cx, link);
    }
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        (**self).enqueue(cx, packet, gone);
    }
    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        (**self).dequeue(cx, gone)
    }
    fn take(&mut self) -> Option<Packet> {
        (**self).take()
    }
    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        (**self).each(f);
    }
    fn stats(&self) -> &Stats {
        (**self).stats()
    }
    fn stats_mut(&mut self) -> Option<&mut Stats> {
        (**self).stats_mut()
    }
    fn options(&self, out: &mut Vec<Field>) {
        (**self).options(out);
    }
    fn details(&self, out: &mut Vec<Field>) {
        (**self).details(out);
    }
    fn honours_departure(&self) -> bool {
        (**self).honours_departure()
    }
    fn children(&self) -> Vec<Report> {
        (**self).children()
    }
    fn report(&self) -> Report {
        (**self).report()
    }
}
