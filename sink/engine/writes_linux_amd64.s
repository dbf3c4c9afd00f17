#include "textflag.h"

// int64 guardedWrite(int32 fd, void *buf, uint64 len): write(2) as C calls it. After a failure on a regular file other than the standard
// streams it returns "interrupted" 5 ms later when the disk is full, which makes the caller try again, and ends the process when the disk
// failed in another way. Every other failure is passed on.
TEXT guardedWrite<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVL $1, AX            // write
	SYSCALL
	CMPQ AX, $-4095
	JCC  failed            // unsigned: an error
	RET

failed:
	NEGQ AX                // errno
	CMPL AX, $4            // EINTR
	JEQ  set
	CMPL AX, $11           // EAGAIN
	JEQ  set
	CMPL DI, $2
	JLE  set
	SUBQ $168, SP          // struct stat (144) and errno; the stack is 16-aligned with the return address
	MOVQ AX, 152(SP)
	MOVQ SP, SI
	MOVL $5, AX            // fstat
	SYSCALL
	TESTQ AX, AX
	MOVL 24(SP), CX        // st_mode
	MOVQ 152(SP), AX
	LEAQ 168(SP), SP
	JNE  set
	ANDL $0xf000, CX
	CMPL CX, $0x8000       // a regular file
	JNE  set
	CMPL AX, $28           // ENOSPC
	JEQ  full
	CMPL AX, $122          // EDQUOT
	JEQ  full
	MOVL $5, DI            // exitDisk
	MOVL $231, AX          // exit_group
	SYSCALL

full:
	SUBQ $24, SP
	MOVQ $0, 0(SP)
	MOVQ $5000000, 8(SP)   // ns
	MOVQ SP, DI
	XORL SI, SI
	MOVL $35, AX           // nanosleep
	SYSCALL
	ADDQ $24, SP
	MOVL $4, AX            // EINTR

set:
	PUSHQ AX
	MOVQ ·errnoLocation(SB), CX
	CALL CX
	POPQ CX
	MOVL CX, (AX)
	MOVQ $-1, AX
	RET

DATA ·guardedWritePC(SB)/8, $guardedWrite<>(SB)
GLOBL ·guardedWritePC(SB), RODATA, $8
