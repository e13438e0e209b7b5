import type { ComponentChildren } from 'preact'

export interface Column<Row> {
  readonly name: string
  readonly cell: (row: Row) => ComponentChildren
  readonly like?: 'number' | 'wide' | undefined
  /** Default: its name. */
  readonly head?: ComponentChildren
  readonly order?: 'ascending' | 'descending' | 'none'
}

export interface TableProps<Row> {
  /** What it lists, for those who do not see it. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly toKey: (row: Row) => string
  /** Index of the column that heads each row; 0 by default. */
  readonly headAt?: number
}

/** Rows under a head. On a phone, which has no room for the head, the style sheet names each cell by its column. */
export function Table<Row>({ label, columns, rows, toKey, headAt = 0 }: TableProps<Row>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section class="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name, like, head = name, order }) => (
              <th key={name} scope="col" class={like} aria-sort={order}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={toKey(row)}>
              {columns.map(({ name, like, cell }, at) =>
                at === headAt ? (
                  <th key={name} scope="row">
                    {cell(row)}
                  </th>
                ) : (
                  <td key={name} class={like === 'number' ? like : undefined} data-name={name}>
                    {cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
