/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A boot sector that is a whole guest: it writes itself to the eight sectors from LBA 64 on through
 * the BIOS, reads them back, compares, and prints WRITTEN or FAILED.
 *
 *	as --32, ld -m elf_i386 -Ttext 0x7c00 --oformat binary
 */
	.code16
	/* Its address is outside of the sector, so that the copies are equal to the sector in
	 * the image. */
	.set	drive, 0x7e00

	.globl _start
_start:
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$0x7c00, %sp
	movb	%dl, drive
	cld

	/* Eight copies of this sector at 0x8000. */
	movw	$0x8000, %di
	movw	$8, %dx
copy:	movw	$0x7c00, %si
	movw	$256, %cx
	rep movsw
	decw	%dx
	jnz	copy

	movw	$0x4300, %ax		/* extended write */
	call	transfer
	movw	$0x9000, buffer
	movw	$0x4200, %ax		/* extended read, to somewhere else */
	call	transfer

	movw	$0x8000, %si
	movw	$0x9000, %di
	movw	$2048, %cx
	repe cmpsw
	jne	failed
	movw	$written, %si
	jmp	print
failed:	movw	$not_written, %si
print:	lodsb
	testb	%al, %al
	jz	stop
	movb	$0x0e, %ah		/* teletype output */
	movw	$7, %bx
	int	$0x10
	jmp	print
stop:	hlt
	jmp	stop

transfer:
	movb	drive, %dl
	movw	$packet, %si
	int	$0x13
	jc	failed
	ret

packet:	.byte	16, 0
	.word	8			/* sectors */
buffer:	.word	0x8000, 0		/* offset, segment */
	.quad	64			/* LBA */
written:
	.asciz	"GUEST HAS WRITTEN\r\n"
not_written:
	.asciz	"GUEST FAILED\r\n"

	.org	510
	.word	0xaa55
