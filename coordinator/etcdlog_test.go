package coordinator

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcd ends the process when it can't write (a full disk). Its own words for that are of transactions; the last line says what to do.
func TestWhatEtcdEndsByIsSaid(t *testing.T) {
	t.Parallel()
	for level, want := range map[zapcore.Level]bool{zapcore.ErrorLevel: false, zapcore.PanicLevel: true, zapcore.FatalLevel: true} {
		var out bytes.Buffer
		b := &bridge{log: slog.New(slog.NewTextHandler(&out, nil)), dir: "/data/etcd", stopping: new(atomic.Bool)}
		with := b.With([]zapcore.Field{zap.String("member", "one")})
		e := zapcore.Entry{Level: level, Message: "failed to commit tx"}
		if err := with.Write(e, []zapcore.Field{zap.Error(errors.New("no space left on device"))}); err != nil {
			t.Fatal(err)
		}
		said := out.String()
		if !strings.Contains(said, "failed to commit tx") || !strings.Contains(said, "no space left") || !strings.Contains(said, "member=one") {
			t.Errorf("%s: %s", level, said)
		}
		if got := strings.Contains(said, "ends this process") && strings.Contains(said, "dir=/data/etcd"); got != want {
			t.Errorf("%s: %s", level, said)
		}
	}
}
