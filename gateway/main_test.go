package gateway

import (
	"os"
	"testing"

	"github.com/splashdam/splashdam/shared/sidebyside"
)

func TestMain(m *testing.M) {
	if err := sidebyside.Set(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
