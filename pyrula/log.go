package pyrula

import "log/slog"

// logger is the worker's log: an event first, then its error under "err".
type logger struct{ *slog.Logger }

func (l *logger) warn(event string, err error) { l.Warn(event, "err", err) }

func (l *logger) error(event string, err error, more ...any) {
	l.Error(event, append(more, "err", err)...)
}
