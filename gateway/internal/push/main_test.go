package push

import (
	"os"
	"testing"

	"github.com/splashdam/splashdam/shared/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.After(m.Run())) }
