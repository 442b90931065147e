//! For how long a walsender may be silent. It answers nothing while it writes a large transaction
//! to disk, or prints a large row; and a walsender that is hung up on begins again at the slot's
//! `restart_lsn`. So the limit doubles with each silence at one position. A dead peer is noticed
//! sooner, by the kernel (`TCP_USER_TIMEOUT`), since status updates go out meanwhile.

use std::time::Duration;

use pgoutput::Lsn;

/// Whatever a walsender does, it is given up after so long.
const LONGEST: Duration = Duration::from_secs(600);

/// After so many silences at one position the failure says what the walsender does.
pub(super) const REPEATED: u32 = 3;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The confirmed position at which a walsender was silent last, and how often.
    silent: Option<(Lsn, u32)>,
}

impl Patience {
    /// A walsender was silent for too long. Returns how often that was so at this position.
    pub(super) fn silent_at(&mut self, confirmed: Lsn) -> u32 {
        let times = match self.silent {
            Some((at, times)) if at == confirmed => times.saturating_add(1),
            Some(_) | None => 1,
        };
        self.silent = Some((confirmed, times));
        times
    }

    /// This position is confirmed: the usual limit counts again, from the next session on.
    pub(super) fn position_confirmed(&mut self, confirmed: Lsn) {
        self.silent.take_if(|(at, _)| confirmed > *at);
    }

    /// The limit of the next session, where `usual` is that of the first.
    pub(super) fn limit(&self, usual: Duration) -> Duration {
        let times = self.silent.map_or(0, |(_, times)| times);
        usual.saturating_mul(2_u32.saturating_pow(times)).min(LONGEST.max(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_doubles_with_each_silence_at_one_position_until_that_is_passed() {
        let usual = Duration::from_secs(10);
        let (at, mut patience) = (Lsn::from_u64(100), Patience::default());
        let mut limits = vec![patience.limit(usual).as_secs()];
        for number in 1..=40 {
            assert_eq!(patience.silent_at(at), number);
            patience.position_confirmed(at);
            limits.push(patience.limit(usual).as_secs());
        }
        assert_eq!(limits[..8], [10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(limits[40], 600);
        assert_eq!(patience.silent_at(Lsn::from_u64(101)), 1, "elsewhere");
        patience.position_confirmed(Lsn::from_u64(102));
        assert_eq!(patience.limit(usual), usual);
    }
}
