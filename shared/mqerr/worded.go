package mqerr

// Worded is an error in the words of somebody who runs Splashdam. What a library or the kernel said of it is the Cause, which stays for
// errors.Is and errors.As and is not shown.
type Worded struct {
	Text  string
	Cause error
}

func (w *Worded) Error() string { return w.Text }
func (w *Worded) Unwrap() error { return w.Cause }
