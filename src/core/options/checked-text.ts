/** Types of texts that the compiler checks where it knows them; what is known only at run time is checked then, as ever. */
import type { SourceText } from '../model/identity-source.ts'
import type { CalendarUnit, Unit } from '../model/limits.ts'

type Digit = '0' | '1' | '2' | '3' | '4' | '5' | '6' | '7' | '8' | '9'
type Whitespace = ' ' | '\n' | '\r' | '\t'

/** A `string`, or a template with one in it, takes any property as a key of it; a text that is known demands its own. */
type IsKnown<Text extends string> = Record<never, never> extends Record<Text, 1> ? false : true

type Trim<Text extends string> = Text extends `${Whitespace}${infer Rest}`
  ? Trim<Rest>
  : Text extends `${infer Rest}${Whitespace}`
    ? Trim<Rest>
    : Text

type CutDigits<Text extends string> = Text extends `${Digit}${infer Rest}` ? CutDigits<Rest> : Text

/** Cuts off the leading number of a text; "?" if there is none, or it is 0. */
type CutNumber<Text extends string> = Text extends `0${infer Rest}`
  ? CutNumber<Rest>
  : Text extends `${Digit}${infer Rest}`
    ? CutDigits<Rest>
    : '?'

/** Tests that this may follow the number of units. `Window` are windows other than those of a length. */
type IsWindow<Text extends string, Window> = Text extends `/${infer Length}`
  ? Length extends Window
    ? true
    : CutNumber<Length> extends Unit
      ? true
      : false
  : false

/** The first part that is no limit; never if there is none. */
type FindWrongLimit<Text extends string, Window> = Text extends `${infer First},${infer Rest}`
  ? IsWindow<CutNumber<Trim<First>>, Window> extends true
    ? FindWrongLimit<Rest, Window>
    : Trim<First>
  : IsWindow<CutNumber<Trim<Text>>, Window> extends true
    ? never
    : Trim<Text>

type FindWrongSource<Text extends string> = Text extends `${infer First}+${infer Rest}`
  ? Trim<First> extends SourceText
    ? FindWrongSource<Rest>
    : Trim<First>
  : Trim<Text> extends SourceText
    ? never
    : Trim<Text>

/** Limits, if they can be right, or else a text that says what is wrong. `Window` are windows other than those of a length. */
export type CheckedText<Text extends string, Window extends CalendarUnit = never> = Text extends unknown
  ? IsKnown<Text> extends false
    ? Text
    : [FindWrongLimit<Text, Window>] extends [never]
      ? Text
      : `"${FindWrongLimit<Text, Window>}" is no limit such as "10/1s" (units ms s m h d w)`
  : never

/** Options whose limits are checked. */
export interface CheckedLimits<LimitsText extends string, PlansText extends string = string> {
  readonly limits?: CheckedText<LimitsText> | undefined
  readonly plans?: Readonly<Record<string, CheckedText<PlansText>>> | undefined
}

type CheckedSources<Text extends string> = Text extends unknown
  ? IsKnown<Text> extends false
    ? Text
    : [FindWrongSource<Text>] extends [never]
      ? Text
      : `"${FindWrongSource<Text>}" is nothing to count by, such as "token", "ip" or "header:<name>"`
  : never

/** Options of which it is checked what callers are counted by. */
export interface CheckedBy<ByText extends string> {
  readonly by?: CheckedSources<ByText> | undefined
}
