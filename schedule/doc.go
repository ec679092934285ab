// Package schedule says when the runs of a schedule are made: at the times of a cron
// expression in a time zone, at an interval, or once. It is pure: time is an argument,
// and a time zone is given to it.
//
// # Times of a cron expression
//
// A cron expression names local times, and clocks are put forward and back. What counts
// is how far the clocks of the zone have come:
//
//	A time that is named fires at the first moment at which the clocks have reached it.
//
// So a time that is skipped fires once, right after the jump, together with all others
// that the same jump skips; and a time that comes twice fires the first time. New York,
// 8 March 2026, 02:00 becomes 03:00:
//
//	30 2 * * *      fires at 03:00, which is 07:00 UTC
//	0,30 2 * * *    fires once, at 03:00
//	0 2,3 * * *     fires once, at 03:00
//
// and 1 November 2026, when 02:00 becomes 01:00:
//
//	30 1 * * *      fires at 05:30 UTC, and not at 06:30, when it is 01:30 again
//	0 2 * * *       fires at 07:00 UTC: before that no clock has shown 02:00
//
// An expression whose hours are all 24 of them names no time of the day but minutes of
// every hour. It fires whenever the clocks show one of its minutes, so it goes on evenly
// through both days: "30 * * * *" fires each real hour, and "* * * * *" each real minute.
// Where the clocks move by half an hour (Lord Howe), so does the minute of the hour.
//
// When day of month and day of week are both restricted, a day needs to be one of the
// two, as in every cron. A field that begins with an asterisk and has a step above 1 is
// a restriction.
//
// # Missed times
//
// When a schedule is looked at, several of its times may have come since it was last
// looked at: the node was down, or busy. See [Times.Due].
package schedule
