#include "textflag.h"

// The runtime calls it as a C function, on a thread's own stack: DI says which clock, SI where the answer goes. It
// changes only what a C function may change.
TEXT ·gettime(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ	·system(SB), AX
	TESTL	DI, DI		// CLOCK_REALTIME is 0
	JEQ	wall
	JMP	AX
wall:
	PUSHQ	SI		// and the stack is aligned for C
	CALL	AX
	POPQ	SI
	MOVQ	·ahead(SB), CX
	MOVQ	(CX), CX
	MOVQ	0(SI), AX	// seconds
	IMULQ	$1000000000, AX
	ADDQ	8(SI), AX	// nanoseconds
	ADDQ	CX, AX
	MOVQ	$1000000000, CX
	XORL	DX, DX
	DIVQ	CX
	MOVQ	AX, 0(SI)
	MOVQ	DX, 8(SI)
	XORL	AX, AX
	RET

// func install()
TEXT ·install(SB), NOSPLIT, $0-0
	MOVQ	runtime·vdsoClockgettimeSym(SB), AX
	TESTQ	AX, AX
	JEQ	none
	MOVQ	AX, ·system(SB)
	LEAQ	·gettime(SB), AX
	MOVQ	AX, runtime·vdsoClockgettimeSym(SB)
none:
	RET
