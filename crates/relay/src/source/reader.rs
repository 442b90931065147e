//! Who reads the slot, by what `pg_stat_activity` shows of the walsender.

use pgoutput::Lsn;

use crate::failure::{Code, Failure, Name};

/// The walsender that holds the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReader {
    /// Its process id.
    pub pid: i32,
    /// The `application_name` of its client; `None` where it has none, or is not shown.
    pub application: Option<String>,
    /// What it waits for, as `TYPE:EVENT`; `None` where it works, or that is not shown.
    pub wait_event: Option<String>,
}

/// To which pipeline a client belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderOf {
    /// To this one: a router, or a command.
    Pipeline,
    /// To none, or to another one.
    Another,
    /// Its name is not known.
    Unknown,
}

impl ReaderOf {
    /// By the client's `application_name`, for the pipeline of this name, which has no space.
    /// Commands add their own name to it, and poolers the address of the client.
    pub fn by_name(application: Option<&str>, pipeline: &str) -> Self {
        match application.map(|application| application.split(' ').next().unwrap_or_default()) {
            None | Some("") => Self::Unknown,
            Some(name) if name == pipeline => Self::Pipeline,
            Some(_) => Self::Another,
        }
    }
}

impl SlotReader {
    /// The failure, if a client that is not of this pipeline holds the slot: what it confirms, this
    /// pipeline never sends. `acknowledged` is the witness's position, if one is known.
    pub fn foreign(
        &self,
        pipeline: &str,
        slot: (&str, Option<Lsn>),
        acknowledged: Option<Lsn>,
    ) -> Option<Failure> {
        let application = self.application.as_deref();
        if ReaderOf::by_name(application, pipeline) != ReaderOf::Another {
            return None;
        }
        let (pid, application, (slot, confirmed)) = (self.pid, application?, slot);
        let past = confirmed
            .zip(acknowledged)
            .filter(|(confirmed, acknowledged)| confirmed > acknowledged)
            .map(|(confirmed, acknowledged)| {
                format!(
                    "; it has confirmed what lies between {acknowledged}, up to which everything \
                     is acknowledged, and {confirmed}"
                )
            });
        let what = format!(
            "pid {pid}, {application}, which is no router of this pipeline by its name, reads the \
             slot {slot}{}",
            past.unwrap_or_default()
        );
        Some(Failure::new(Code::SlotReadElsewhere, what).naming(Name::Pid, pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_and_the_commands_of_a_pipeline_are_known_by_its_name() {
        let of = |application| ReaderOf::by_name(application, "shop");
        for own in ["shop", "shop recover", "shop - 10.0.0.7:5432"] {
            assert_eq!(of(Some(own)), ReaderOf::Pipeline, "{own}");
        }
        for another in ["pg_recvlogical", "shop2", "Debezium Streaming", "SHOP"] {
            assert_eq!(of(Some(another)), ReaderOf::Another, "{another}");
        }
        assert_eq!((of(None), of(Some(""))), (ReaderOf::Unknown, ReaderOf::Unknown));
    }

    #[test]
    fn what_a_foreign_reader_has_confirmed_past_the_witness_is_named() {
        let foreign = |application: Option<&str>, confirmed: u64, acknowledged: Option<u64>| {
            let application = application.map(str::to_owned);
            let reader = SlotReader { pid: 7, application, wait_event: None };
            let slot = ("s", Some(Lsn::from_u64(confirmed)));
            let failure = reader.foreign("shop", slot, acknowledged.map(Lsn::from_u64));
            failure.map(|failure| failure.message)
        };
        let is = "pid 7, pg_recvlogical, which is no router of this pipeline by its name, reads \
                  the slot s";
        assert_eq!(foreign(Some("pg_recvlogical"), 16, Some(16)).as_deref(), Some(is));
        assert_eq!(foreign(Some("pg_recvlogical"), 16, None).as_deref(), Some(is));
        let past = foreign(Some("pg_recvlogical"), 32, Some(16)).unwrap();
        assert!(past.contains("between 0/10, up to which") && past.ends_with("and 0/20"), "{past}");
        assert_eq!(foreign(Some("shop"), 32, Some(16)), None);
        assert_eq!(foreign(None, 32, Some(16)), None);
    }
}
