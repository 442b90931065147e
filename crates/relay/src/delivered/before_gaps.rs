//! Which rows were committed before every open gap, for a row that is looked at alone: a record
//! with its id is its own only then, where ids repeat.

use pgoutput::Xid;

use super::{
    compared::{FirstOfGap, TimeColumn, may_be_of_restore},
    xid::FullXid,
};
use crate::source::Gap;

/// Which rows were committed before every gap, so that their records are theirs.
#[derive(Debug, Clone, Copy)]
pub struct BeforeGaps {
    first: FirstOfGap,
    next: FullXid,
    /// The time before which a row says that it was made, if the server may have been restored.
    made_ms: Option<i64>,
}

/// By how much the clocks of writers may be apart, in milliseconds.
const CLOCKS_APART_MS: i64 = 3_600_000;

impl BeforeGaps {
    /// Those before `first`, and, where a server may have given its ids again, those that say that
    /// they were made before that, wherever their writers were. `restored_ms`: `since_restore`,
    /// in milliseconds since 1970. `None`: nothing shows it.
    pub fn of(
        gaps: &[Gap],
        (first, next): (FirstOfGap, FullXid),
        restored_ms: Option<i64>,
    ) -> Option<Self> {
        if !gaps.iter().any(may_be_of_restore) {
            return Some(Self { first, next, made_ms: None });
        }
        let looks_older_ms = i64::try_from(TimeColumn::Day.looks_older_by()).ok()? * 1_000;
        let made_ms = Some(restored_ms?.saturating_sub(looks_older_ms + CLOCKS_APART_MS));
        Some(Self { first, next, made_ms })
    }

    /// Whether a visible row is one: its `xmin`, and the time that it says, in milliseconds since
    /// 1970.
    pub fn has(self, xmin: Xid, made_ms: Option<i64>) -> bool {
        let Self { first, next, made_ms: before } = self;
        first.xid().follows(xmin, next)
            && before.is_none_or(|before| made_ms.is_some_and(|made| made < before))
    }
}

#[cfg(test)]
mod tests {
    use pgoutput::Lsn;

    use super::*;
    use crate::{
        failure::{Code, Failure},
        source::{Interval, Mark},
    };

    /// Else a record of another row with the id is taken for the row's.
    #[test]
    fn a_row_is_before_a_gap_by_its_id_and_where_ids_came_again_by_its_time() {
        const HOUR_MS: i64 = 3_600_000;
        let first = FirstOfGap { xid: FullXid::from_u64(750), ended_by: Lsn::from_u64(90) };
        let next = FullXid::from_u64(900);
        let (earlier, later) = (Xid::from_u32(749), Xid::from_u32(750));
        let gap_of = |code| {
            let to = Mark { lsn: Lsn::from_u64(1_000), at: None };
            let interval = Interval { from: None, to };
            Gap { failure: Failure::new(code, "it is gone"), interval }
        };
        let of = |code, restored_ms| BeforeGaps::of(&[gap_of(code)], (first, next), restored_ms);
        let by_id = of(Code::PublicationLacksTable, None).unwrap();
        assert!(by_id.has(earlier, None) && by_id.has(earlier, Some(i64::MAX)));
        assert!(!by_id.has(later, Some(0)));
        for code in [Code::SlotMissing, Code::SlotLost, Code::SlotMoved, Code::HistoryChanged] {
            assert!(of(code, None).is_none(), "{code}");
            let before = of(code, Some(100 * HOUR_MS)).unwrap();
            assert!(before.has(earlier, Some(60 * HOUR_MS)), "{code}");
            assert!(!before.has(earlier, Some(61 * HOUR_MS)), "{code}");
            assert!(!before.has(earlier, None) && !before.has(later, Some(0)), "{code}");
        }
    }
}
