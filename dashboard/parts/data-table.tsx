import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { formatCount } from '../words.ts'
import { Plain } from './plain.tsx'
import { type Column, Table, type TableProps } from './table.tsx'

export interface DataColumn<Row> {
  readonly name: string
  /** Sorts the rows, and is searched. */
  readonly value: (row: Row) => string | number
  /** Default: the value. */
  readonly cell?: (row: Row) => ComponentChildren
  /** A number that is not written as one. */
  readonly isText?: boolean
}

export interface DataTableProps<Row> extends Pick<TableProps<Row>, 'label' | 'rows' | 'toKey' | 'brief'> {
  readonly columns: readonly DataColumn<Row>[]
  /** The column that it is sorted by at first, the highest first. */
  readonly sortedBy?: string
}

/** Shorter tables are seen at a glance. */
const MIN_SEARCHED_ROWS = 6

/** Longer tables are shown in full when that is asked for. */
const MAX_ROWS = 10

/** A table that can be searched, and sorted by any column. */
export function DataTable<Row>({ label, columns, rows, toKey, brief, sortedBy }: DataTableProps<Row>) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState(sortedBy === undefined ? undefined : { name: sortedBy, isDescending: true })
  const [isWhole, setWhole] = useState(false)
  const words = search.trim().toLowerCase()
  const found = rows.filter((row) => columns.some(({ value }) => `${value(row)}`.toLowerCase().includes(words)))
  const sorting = columns.find(({ name }) => name === order?.name)
  const shown = sorting ? found.toSorted((a, b) => compareValues(sorting.value(a), sorting.value(b))) : found
  if (order?.isDescending) shown.reverse()
  const isCut = !isWhole && shown.length > MAX_ROWS + 2
  const toggle = (name: string, isNumber: boolean) =>
    setOrder({ name, isDescending: order?.name === name ? !order.isDescending : isNumber })
  const direction = order?.isDescending ? 'descending' : 'ascending'
  const sortable = columns.map(({ name, value, cell = value, isText }): Column<Row> => {
    const isNumber = rows[0] !== undefined && typeof value(rows[0]) === 'number'
    return {
      name,
      cell,
      like: isNumber && !isText ? 'number' : undefined,
      order: order?.name === name ? direction : 'none',
      head: (
        <button type="button" class="sort" onClick={() => toggle(name, isNumber)}>
          {name}
        </button>
      ),
    }
  })
  return (
    <>
      {rows.length >= MIN_SEARCHED_ROWS && (
        <input
          type="search"
          aria-label={`Search: ${label}`}
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      <Table
        label={label}
        columns={sortable}
        rows={isCut ? shown.slice(0, MAX_ROWS) : shown}
        toKey={toKey}
        brief={brief}
      />
      {isCut && <Plain onClick={() => setWhole(true)}>Show all {formatCount(shown.length)}</Plain>}
    </>
  )
}

function compareValues(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : `${a}`.localeCompare(`${b}`)
}
