package api

import "github.com/splashdam/splashdam/shared/mq"

// Duration is a duration as text ("30s", "5m", "168h").
type Duration = mq.Duration
